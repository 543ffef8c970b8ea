import { z } from "zod";
import { ERROR_STATUS, type ErrorCode } from "../domain/kernel/errors.ts";
import { IDEMPOTENCY_KEY_MAX } from "../domain/kernel/idempotency.ts";

export const JSON_TYPE = "application/json";

export const ErrorSchema = z
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
      challenge: z
        .object({
          token: z.string().meta({ description: "For POST /auth/login/mfa, within 5 minutes, once" }),
          expiresAt: z.iso.datetime(),
          methods: z.array(z.enum(["TOTP", "PASSKEY", "RECOVERY_CODE"])),
        })
        .optional()
        .meta({ description: "With the reason MFA_REQUIRED of a sign-in: how it goes on" }),
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
const whole = (description: string) => ({ description, schema: { type: "integer" as const } });
/** Descriptions of response headers, by name. */
export const HEADER_TEXTS = {
  "X-Request-Id": REQUEST_ID,
  "X-RateLimit-Limit": whole("Requests in a window of the limit that has the fewest left"),
  "X-RateLimit-Remaining": whole("Requests that are left in it"),
  "X-RateLimit-Reset": whole("When the window closes, in Unix seconds"),
};
/** Headers of every response; those about a limit where one applies. */
export const HEADERS = Object.fromEntries(
  Object.keys(HEADER_TEXTS).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
);

/** Returns a component's name for an error: `VALIDATION_ERROR` is `ValidationError`. */
export const nameOf = (code: ErrorCode): string =>
  code.toLowerCase().replace(/(^|_)(\w)/g, (_all, _mark, letter: string) => letter.toUpperCase());

const TEXT: Record<ErrorCode, string> = {
  VALIDATION_ERROR: "The request is not valid; `details` names the fields",
  UNAUTHORIZED: "Credentials are missing or not valid",
  PAYMENT_REQUIRED: "The plan does not include this, or its quota is used up",
  FORBIDDEN: "The role or scope does not allow this",
  NOT_FOUND: "There is no such record within reach of these credentials",
  METHOD_NOT_ALLOWED: "The address exists for other methods, see the header Allow",
  REQUEST_TIMEOUT: "The request took too long to arrive; the connection is closed",
  CONFLICT: "The record exists already, or its state does not allow this; see `reason`",
  GONE: "The link or invitation has expired or was withdrawn",
  PAYLOAD_TOO_LARGE: "The body is too large",
  UNSUPPORTED_MEDIA_TYPE: "The body is not application/json",
  UNPROCESSABLE_ENTITY: "Well formed, but not possible; see `reason`",
  RATE_LIMITED: "Too many requests; wait as long as Retry-After says",
  HEADERS_TOO_LARGE: "The headers are too large; the connection is closed",
  INTERNAL_ERROR: "A fault of the server; quote `requestId`",
  UPSTREAM_ERROR: "Another service that this one depends on failed",
  SERVICE_UNAVAILABLE: "Not possible right now; wait as long as Retry-After says",
};

const CODES = Object.keys(ERROR_STATUS) as ErrorCode[];

export const errorResponses = () =>
  Object.fromEntries(
    CODES.map((code) => [
      nameOf(code),
      {
        description: TEXT[code],
        headers: HEADERS,
        content: { [JSON_TYPE]: { schema: { $ref: "#/components/schemas/Error" } } },
      },
    ]),
  );

export const PARAMETERS = {
  "X-Project-ID": {
    name: "X-Project-ID",
    in: "header",
    description: "The project, for a user whose tenant has several. For an API key it must be the key's own.",
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
} as const;

/** How callers authenticate. */
export const SECURITY_SCHEMES = {
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
} as const;
