/** The closed set of `error.code`, with the HTTP status each one answers with. */
export const ERROR_STATUS = {
  VALIDATION_ERROR: 400,
  UNAUTHORIZED: 401,
  PAYMENT_REQUIRED: 402,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  CONFLICT: 409,
  GONE: 410,
  PAYLOAD_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  UNPROCESSABLE_ENTITY: 422,
  RATE_LIMITED: 429,
  INTERNAL_ERROR: 500,
  UPSTREAM_ERROR: 502,
  SERVICE_UNAVAILABLE: 503,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;
export type FieldProblem = { field: string; message: string };

type DomainErrorParts = { details?: FieldProblem[]; reason?: string; retryAfterSeconds?: number };

/** The one error a caller is meant to see. Anything else that is thrown is a bug and answers 500. */
export class DomainError extends Error {
  readonly code: ErrorCode;
  readonly details: FieldProblem[];
  readonly reason: string | undefined;
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ErrorCode, message: string, parts: DomainErrorParts = {}) {
    super(message);
    this.name = "DomainError";
    this.code = code;
    this.details = parts.details ?? [];
    this.reason = parts.reason;
    this.retryAfterSeconds = parts.retryAfterSeconds;
  }

  get status(): number {
    return ERROR_STATUS[this.code];
  }
}

export const notFound = (what: string) => new DomainError("NOT_FOUND", `${what} not found`);

export const conflict = (reason: string, message: string) => new DomainError("CONFLICT", message, { reason });

export const forbidden = (reason: string, message: string) =>
  new DomainError("FORBIDDEN", message, { reason });

export const unauthorized = (reason: string, message: string) =>
  new DomainError("UNAUTHORIZED", message, { reason });

/** One bad field: the usual 400. */
export const invalid = (field: string, message: string, reason?: string) =>
  new DomainError("VALIDATION_ERROR", `${field}: ${message}`, {
    details: [{ field, message }],
    ...(reason === undefined ? {} : { reason }),
  });
