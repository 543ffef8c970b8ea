import {
  createDocument,
  type CreateDocumentOptions,
  type ZodOpenApiContentObject,
  type ZodOpenApiOperationObject,
} from "zod-openapi";
import type { z } from "zod";
import { type Access, type Needs, scopesOf } from "../domain/kernel/caller.ts";
import { describeReference, Reference } from "../domain/evaluation/language/syntax.ts";
import { ERROR_STATUS, type ErrorCode } from "../domain/kernel/errors.ts";
import { takesIdempotencyKey } from "./idempotency.ts";
import {
  errorResponses,
  ErrorSchema,
  HEADER_TEXTS,
  HEADERS,
  INTRODUCTION,
  JSON_TYPE,
  nameOf,
  PARAMETERS,
  SECURITY_SCHEMES,
  TAG_TEXT,
} from "./openapi-components.ts";
import {
  addExamples,
  dropUnused,
  nameParts,
  openAnswers,
  settle,
  simplify,
  type ToName,
} from "./openapi-schemas.ts";
import { FORM_TYPE } from "./body.ts";
import { type AnyRoute, takesBody } from "./route.ts";
import { fieldsOf } from "./validate.ts";
import { Worker } from "node:worker_threads";

/** Makes the OpenAPI document of the API that `origin` serves as JSON in UTF-8. */
export type Describe = (origin: string) => Promise<Buffer>;

/** Makes the document of `routes` at once, which takes half a second of CPU for all routes. */
export const describeHere =
  (routes: readonly AnyRoute[]): Describe =>
  async (origin) =>
    Buffer.from(JSON.stringify(openApiDocument(routes, origin)));

/** Makes the document of all routes in a thread of its own, so that other requests are served meanwhile. */
export const describeInThread: Describe = (origin) =>
  new Promise((resolve, reject) => {
    const thread = new Worker(new URL("openapi-thread.ts", import.meta.url), { workerData: origin });
    thread.unref();
    thread.once("message", (text: string) => resolve(Buffer.from(text)));
    thread.once("error", reject);
    thread.once("exit", (code) => reject(new Error(`the thread ended with ${code} before its document`)));
  });

type OpenApiDocument = ReturnType<typeof createDocument>;

const SECURITY = { key: { ApiKeyAuth: [] }, user: { BearerAuth: [] }, admin: { AdminAuth: [] } };

/** Errors that any operation may return: unknown parameters and blocked addresses are refused everywhere. */
const USUAL_ERRORS: readonly ErrorCode[] = [
  "VALIDATION_ERROR",
  "FORBIDDEN",
  "RATE_LIMITED",
  "INTERNAL_ERROR",
  "SERVICE_UNAVAILABLE",
];

/** Whether a request can name something that is not there. */
const isAboutSomething = ({ params, query, body, project }: AnyRoute): boolean =>
  project !== "none" || [params, query, body].some((part) => part !== undefined);

const errorsOf = (route: AnyRoute) => {
  const codes = new Set<ErrorCode>([
    ...USUAL_ERRORS,
    // Readers too may meet a record that is in no state for it, or is being made.
    ...(route.access === "public" ? [] : (["UNAUTHORIZED", "CONFLICT"] as const)),
    ...(isAboutSomething(route) ? (["NOT_FOUND"] as const) : []),
    ...(route.method === "get" ? [] : (["CONFLICT"] as const)),
    ...(takesBody(route) ? (["PAYLOAD_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE"] as const) : []),
    ...(takesIdempotencyKey(route) ? (["UNPROCESSABLE_ENTITY"] as const) : []),
    ...(route.errors ?? []),
  ]);
  return Object.fromEntries(
    [...codes].map((code) => [ERROR_STATUS[code], { $ref: `#/components/responses/${nameOf(code)}` }]),
  );
};

const accessText = (access: Access): string => {
  if (access === "public") return "Open to everyone.";
  const { scope, roles, admin, needs } = access;
  const parts = [
    ...(scope === undefined ? [] : [`API keys with the scope \`${scopesOf(access).join("` or `")}\``]),
    ...(roles === undefined ? [] : [`users with the role ${roles.join(", ")}`]),
    ...(admin === undefined ? [] : ["super-admins"]),
    ...(admin === undefined || admin === "*" ? [] : [`platform tokens with the scope \`${admin}\``]),
  ];
  return `Open to ${parts.join(" and ")}.${needsText(needs)}`;
};

const needsText = (needs: Needs = {}): string => {
  const wants = [
    ...(needs.approval ? ["an approved tenant"] : []),
    ...(needs.feature === undefined ? [] : [`a plan with ${needs.feature}`]),
    ...(needs.verifiedEmail ? ["a verified email address"] : []),
    ...(needs.scope === undefined ? [] : [`of API keys the scope \`${needs.scope}\` too`]),
  ];
  return wants.length > 0 ? ` Needs ${wants.join(" and ")}.` : "";
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

const sessionParameters = ({ session }: AnyRoute) =>
  session === undefined ? [] : [{ $ref: "#/components/parameters/X-Session" }];

/** Whether the operation may be called without a body, which counts as `{}`. */
const isOptional = (body: z.ZodType): boolean => {
  try {
    return body.safeParse({}).success;
  } catch {
    // A schema with asynchronous checks must have something to check.
    return false;
  }
};

const bodyOf = ({ body, example, described = body, needsBody, takesForm }: AnyRoute) => {
  if (described === undefined) return {};
  const media = { schema: described, ...(example === undefined ? {} : { example }) };
  return {
    requestBody: {
      required: needsBody ?? !isOptional(described),
      content: { [takesForm ? FORM_TYPE : JSON_TYPE]: media },
    },
  };
};

const FILE = { type: "string", format: "binary" } as const;

/** The answers to a request with Range. */
const rangesOf = (content: ZodOpenApiContentObject) => ({
  206: { description: "The part that Range asks for", headers: HEADERS, content },
  416: {
    description: "The file has no such part",
    headers: HEADERS,
    content: { [JSON_TYPE]: { schema: ErrorSchema } },
  },
});

const successesOf = (route: AnyRoute) => {
  const own = Object.fromEntries(
    Object.entries(route.headers ?? {}).map(([name, description]) => [
      name,
      { description, schema: { type: "string" as const } },
    ]),
  );
  const statuses = [route.status ?? 200, ...(route.otherStatus === undefined ? [] : [route.otherStatus])];
  const content: ZodOpenApiContentObject = Object.fromEntries(
    (route.media ?? [JSON_TYPE]).map((type) => [
      type,
      { schema: type === JSON_TYPE ? route.response : FILE },
    ]),
  );
  const describe = (status: number) =>
    status === 302
      ? { description: "Redirects", headers: HEADERS }
      : {
          description: status === 201 ? "Created" : "OK",
          headers: { ...HEADERS, ...own },
          content,
        };
  const description = "Not changed since the ETag in If-None-Match";
  const unchanged = { 304: { description, headers: { ...HEADERS, ...own } } };
  return {
    ...Object.fromEntries(statuses.map((status) => [status, describe(status)])),
    ...(route.isRevalidated ? unchanged : {}),
    ...(route.hasRanges ? rangesOf(content) : {}),
  };
};

const operationOf = (route: AnyRoute): ZodOpenApiOperationObject => ({
  operationId: route.id,
  tags: [route.tag],
  summary: route.summary,
  description: [route.description, accessText(route.access)].filter(Boolean).join("\n\n"),
  security: securityOf(route.access),
  ...(route.deprecated === undefined ? {} : { deprecated: true }),
  parameters: [...projectParameters(route), ...keyParameters(route), ...sessionParameters(route)],
  requestParams: {
    ...(route.params === undefined ? {} : { path: route.params }),
    ...(route.query === undefined ? {} : { query: route.query }),
  },
  ...bodyOf(route),
  responses: { ...successesOf(route), ...errorsOf(route) },
});

const pathsOf = (routes: readonly AnyRoute[]) => {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {};
  for (const route of routes) (paths[route.path] ??= {})[route.method] = operationOf(route);
  return paths;
};

const tagOf = (name: string) => {
  const description = TAG_TEXT[name];
  return { name, ...(description === undefined ? {} : { description }) };
};

/** A reference of before, as it comes back in answers. */
const OLDER_REFERENCE = {
  type: "object",
  additionalProperties: {},
  description: "A reference in a rule of before, with the older name of `ref`",
} as const;

type Overriding = Parameters<NonNullable<CreateDocumentOptions["override"]>>[0];

const showReference = (context: Overriding): void => {
  describeReference(context);
  if (context.io === "output") asAnswered(context.jsonSchema);
};

const asAnswered = (schema: Record<string, unknown>): void => {
  const { type, properties, required, additionalProperties } = schema;
  for (const key of Object.keys(schema)) delete schema[key];
  schema["anyOf"] = [{ type, properties, required, additionalProperties }, OLDER_REFERENCE];
};

/** Every integer has these bounds, which are those of exact integers in JSON and tell a reader nothing. */
const dropBoundsOfIntegers = (schema: Record<string, unknown>): void => {
  if (schema["type"] !== "integer") return;
  if (schema["minimum"] === Number.MIN_SAFE_INTEGER) delete schema["minimum"];
  if (schema["maximum"] === Number.MAX_SAFE_INTEGER) delete schema["maximum"];
};

/** Adapts schemas to OpenAPI 3.0, which knows `format`, a single `example`, and no `propertyNames`. */
const override: NonNullable<CreateDocumentOptions["override"]> = (context) => {
  const { jsonSchema, zodSchema, io } = context;
  if (zodSchema === Reference) showReference(context);
  const type = zodSchema._zod.def.type;
  if (type === "date") Object.assign(jsonSchema, { type: "string", format: "date-time" });
  // Clients must accept new fields; a strict object says so itself.
  if (type === "object" && io === "output" && jsonSchema.additionalProperties === false) {
    if (!("catchall" in zodSchema._zod.def && zodSchema._zod.def.catchall))
      delete jsonSchema.additionalProperties;
  }
  dropBoundsOfIntegers(jsonSchema);
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern;
  if (Array.isArray(jsonSchema.examples)) {
    jsonSchema.example = jsonSchema.examples[0];
    delete jsonSchema.examples;
  }
};

/**
 * Builds the OpenAPI 3.0.3 description of `routes`; every record schema with a `meta({ id })` is a component.
 * @param origin the address of the server that serves it, such as https://games.example.com; none for any
 */
export const openApiDocument = (routes: readonly AnyRoute[], origin = ""): OpenApiDocument => {
  const document = createDocument(
    {
      openapi: "3.0.3",
      info: {
        title: "Laurel API",
        version: "1.0.0",
        description: INTRODUCTION,
        contact: { name: "Those who run this server" },
        license: { name: "MIT", url: "https://opensource.org/license/mit" },
      },
      servers: [{ url: `${origin}/api/v1` }],
      tags: [...new Set(routes.map(({ tag }) => tag))].map(tagOf),
      paths: pathsOf(routes),
      components: {
        schemas: { Error: ErrorSchema },
        responses: errorResponses(),
        headers: HEADER_TEXTS,
        parameters: PARAMETERS,
        securitySchemes: SECURITY_SCHEMES,
      },
    },
    { override },
  );
  const parts = document as unknown as ToName;
  simplify(parts);
  nameParts(parts);
  settle(parts);
  dropUnused(parts);
  openAnswers(parts);
  addExamples(parts);
  return document;
};
