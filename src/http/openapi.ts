import { createDocument, type CreateDocumentOptions, type ZodOpenApiOperationObject } from "zod-openapi";
import { z } from "zod";
import type { Access } from "../domain/access.ts";
import { ERROR_STATUS, type ErrorCode } from "../domain/errors.ts";
import { IDEMPOTENCY_KEY_MAX } from "../domain/idempotency/idempotency.ts";
import { takesIdempotencyKey } from "./idempotency.ts";
import type { AnyRoute } from "./route.ts";
import { fieldsOf } from "./validate.ts";

export type OpenApiDocument = ReturnType<typeof createDocument>;

const JSON_TYPE = "application/json";
const SECURITY = { key: { ApiKeyAuth: [] }, user: { BearerAuth: [] }, admin: { AdminAuth: [] } };

/** Errors that any operation may answer, whatever it does. */
export const USUAL_ERRORS: readonly ErrorCode[] = [
  "VALIDATION_ERROR",
  "UNAUTHORIZED",
  "FORBIDDEN",
  "NOT_FOUND",
  "CONFLICT",
  "RATE_LIMITED",
  "INTERNAL_ERROR",
  "SERVICE_UNAVAILABLE",
];
const BODY_ERRORS: readonly ErrorCode[] = [
  "PAYLOAD_TOO_LARGE",
  "UNSUPPORTED_MEDIA_TYPE",
  "UNPROCESSABLE_ENTITY",
];

const ErrorSchema = z
  .object({
    error: z.object({
      code: z.enum(Object.keys(ERROR_STATUS) as [ErrorCode, ...ErrorCode[]]),
      message: z.string(),
      details: z
        .array(z.object({ field: z.string(), message: z.string() }))
        .meta({ description: "One item for each bad field; empty for other errors" }),
      reason: z
        .string()
        .optional()
        .meta({ description: "The specific cause, for programs", example: "MALFORMED_JSON" }),
      requestId: z.string(),
      timestamp: z.iso.datetime(),
    }),
  })
  .meta({ id: "Error", description: "The body of every answer that is not 200 or 201" });

const REQUEST_ID = {
  description:
    "Names the request in the server's log; yours if you sent one of 8 to 64 letters, digits, _ or -",
  schema: { type: "string" as const },
};
const headers = { "X-Request-Id": { $ref: "#/components/headers/X-Request-Id" } };

const nameOf = (code: ErrorCode): string =>
  code.toLowerCase().replace(/(^|_)(\w)/g, (_all, _mark, letter: string) => letter.toUpperCase());

const TEXT: Record<ErrorCode, string> = {
  VALIDATION_ERROR: "The request is not valid; `details` names the fields",
  UNAUTHORIZED: "Credentials are missing or not valid",
  PAYMENT_REQUIRED: "The plan does not include this, or its quota is used up",
  FORBIDDEN: "The role or scope does not allow this",
  NOT_FOUND: "There is no such record within reach of these credentials",
  METHOD_NOT_ALLOWED: "The address exists for other methods, see the header Allow",
  CONFLICT: "The record exists already, or its state does not allow this; see `reason`",
  GONE: "The link or invitation has expired or was withdrawn",
  PAYLOAD_TOO_LARGE: "The body is too large",
  UNSUPPORTED_MEDIA_TYPE: "The body is not application/json",
  UNPROCESSABLE_ENTITY: "Well formed, but not possible; see `reason`",
  RATE_LIMITED: "Too many requests; wait as long as Retry-After says",
  INTERNAL_ERROR: "A fault of the server; quote `requestId`",
  UPSTREAM_ERROR: "Another service that this one depends on failed",
  SERVICE_UNAVAILABLE: "Not possible right now; wait as long as Retry-After says",
};

const CODES = Object.keys(ERROR_STATUS) as ErrorCode[];

const errorResponses = () =>
  Object.fromEntries(
    CODES.map((code) => [
      nameOf(code),
      {
        description: TEXT[code],
        headers,
        content: { [JSON_TYPE]: { schema: { $ref: "#/components/schemas/Error" } } },
      },
    ]),
  );

const takesBody = ({ method, body }: AnyRoute): boolean =>
  body !== undefined || method === "post" || method === "put";

const errorsOf = (route: AnyRoute) => {
  const codes = new Set([...USUAL_ERRORS, ...(takesBody(route) ? BODY_ERRORS : []), ...(route.errors ?? [])]);
  return Object.fromEntries(
    [...codes].map((code) => [ERROR_STATUS[code], { $ref: `#/components/responses/${nameOf(code)}` }]),
  );
};

const whoMay = (access: Access): string => {
  if (access === "public") return "Open to everyone.";
  const { scope, roles, admin, needs = {} } = access;
  const parts = [
    ...(scope === undefined ? [] : [`API keys with the scope \`${scope}\``]),
    ...(roles === undefined ? [] : [`users with the role ${roles.join(", ")}`]),
    ...(admin === undefined ? [] : ["super-admins"]),
    ...(admin === undefined || admin === "*" ? [] : [`platform tokens with the scope \`${admin}\``]),
  ];
  const wants = [
    ...(needs.approval ? ["an approved tenant"] : []),
    ...(needs.feature === undefined ? [] : [`a plan with ${needs.feature}`]),
    ...(needs.verifiedEmail ? ["a verified email address"] : []),
  ];
  return `Open to ${parts.join(" and ")}.${wants.length > 0 ? ` Needs ${wants.join(" and ")}.` : ""}`;
};

const securityOf = (access: Access) => {
  if (access === "public") return [];
  return [
    ...(access.scope === undefined ? [] : [SECURITY.key]),
    ...(access.roles === undefined ? [] : [SECURITY.user]),
    ...(access.admin === undefined ? [] : [SECURITY.admin]),
  ];
};

const projectParameters = ({ project, query }: AnyRoute) => {
  if (project !== "caller" && project !== "optional") return [];
  const inQuery = !fieldsOf(query).includes("projectId");
  return [
    { $ref: "#/components/parameters/X-Project-ID" },
    ...(inQuery ? [{ $ref: "#/components/parameters/projectId" }] : []),
  ];
};

const keyParameters = (route: AnyRoute) =>
  takesIdempotencyKey(route) ? [{ $ref: "#/components/parameters/X-Idempotency-Key" }] : [];

/** Whether the operation may be called without a body, which counts as `{}`. */
const isOptional = (body: z.ZodType): boolean => {
  try {
    return body.safeParse({}).success;
  } catch {
    // A schema with asynchronous checks has something to check.
    return false;
  }
};

const successesOf = (route: AnyRoute) => {
  const statuses = [route.status ?? 200, ...(route.otherStatus === undefined ? [] : [route.otherStatus])];
  const describe = (status: number) =>
    status === 302
      ? { description: "Redirects", headers }
      : {
          description: status === 201 ? "Created" : "OK",
          headers,
          content: { [JSON_TYPE]: { schema: route.response } },
        };
  return Object.fromEntries(statuses.map((status) => [status, describe(status)]));
};

const operationOf = (route: AnyRoute): ZodOpenApiOperationObject => ({
  operationId: route.id,
  tags: [route.tag],
  summary: route.summary,
  description: [route.description, whoMay(route.access)].filter(Boolean).join("\n\n"),
  security: securityOf(route.access),
  ...(route.deprecated === undefined ? {} : { deprecated: true }),
  parameters: [...projectParameters(route), ...keyParameters(route)],
  requestParams: {
    ...(route.params === undefined ? {} : { path: route.params }),
    ...(route.query === undefined ? {} : { query: route.query }),
  },
  ...(route.body === undefined
    ? {}
    : {
        requestBody: {
          required: !isOptional(route.body),
          content: { [JSON_TYPE]: { schema: route.body } },
        },
      }),
  responses: { ...successesOf(route), ...errorsOf(route) },
});

const pathsOf = (routes: readonly AnyRoute[]) => {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {};
  for (const route of routes) (paths[route.path] ??= {})[route.method] = operationOf(route);
  return paths;
};

/**
 * What the document says in its own version's words: 3.0 knows `format`, one `example`, no `propertyNames`.
 */
const override: NonNullable<CreateDocumentOptions["override"]> = ({ jsonSchema, zodSchema, io }) => {
  const type = zodSchema._zod.def.type;
  if (type === "date") Object.assign(jsonSchema, { type: "string", format: "date-time" });
  // Clients must let new fields pass; a strict object says so itself.
  if (type === "object" && io === "output" && jsonSchema.additionalProperties === false) {
    if (!("catchall" in zodSchema._zod.def && zodSchema._zod.def.catchall))
      delete jsonSchema.additionalProperties;
  }
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  if (Array.isArray(jsonSchema.examples)) {
    jsonSchema.example = jsonSchema.examples[0];
    delete jsonSchema.examples;
  }
};

/** The OpenAPI 3.0.3 description of `routes`; every record schema with a `meta({ id })` is a component. */
export const openApiDocument = (routes: readonly AnyRoute[]): OpenApiDocument =>
  createDocument(
    {
      openapi: "3.0.3",
      info: {
        title: "Laurel API",
        version: "1.0.0",
        description: "Multi-tenant gamification: players, events, rules, levels and live leaderboards.",
      },
      servers: [{ url: "/api/v1" }],
      tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
      paths: pathsOf(routes),
      components: {
        schemas: { Error: ErrorSchema },
        responses: errorResponses(),
        headers: { "X-Request-Id": REQUEST_ID },
        parameters: {
          "X-Project-ID": {
            name: "X-Project-ID",
            in: "header",
            description:
              "The project, for a user whose tenant has several. For an API key it must be the key's own.",
            schema: { type: "string", format: "uuid" },
          },
          "X-Idempotency-Key": {
            name: "X-Idempotency-Key",
            in: "header",
            description:
              "Makes the request safe to repeat: for 24 hours the same key gives the same answer, with " +
              "X-Idempotent-Replayed. The same key with another request answers 422.",
            schema: { type: "string", maxLength: IDEMPOTENCY_KEY_MAX },
          },
          projectId: {
            name: "projectId",
            in: "query",
            description: "Used when X-Project-ID is absent.",
            schema: { type: "string", format: "uuid" },
          },
        },
        securitySchemes: {
          ApiKeyAuth: {
            type: "apiKey",
            in: "header",
            name: "X-API-Key",
            description: "A project's key, for servers",
          },
          BearerAuth: {
            type: "http",
            scheme: "bearer",
            bearerFormat: "JWT",
            description: "A user's access token",
          },
          AdminAuth: {
            type: "http",
            scheme: "bearer",
            description: "A super-admin's token, or a platform token (svc_admin_...)",
          },
        },
      },
    },
    { override },
  );
