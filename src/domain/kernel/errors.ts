/** Returns the code of an error of the system, of a library or of PostgreSQL; "" without one. */
export const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "";

/** All values of `error.code`, with their HTTP status. */
export const ERROR_STATUS = {
  VALIDATION_ERROR: 400,
  UNAUTHORIZED: 401,
  PAYMENT_REQUIRED: 402,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  REQUEST_TIMEOUT: 408,
  CONFLICT: 409,
  GONE: 410,
  PAYLOAD_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
  UNPROCESSABLE_ENTITY: 422,
  RATE_LIMITED: 429,
  HEADERS_TOO_LARGE: 431,
  INTERNAL_ERROR: 500,
  UPSTREAM_ERROR: 502,
  SERVICE_UNAVAILABLE: 503,
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;
export type FieldProblem = { field: string; message: string };

/** Maximum characters of a message, which may quote client input. */
export const MESSAGE_MAX = 300;
/** Maximum characters of a field's name. */
const FIELD_MAX = 150;
/** Maximum bytes of all details of one error as JSON: responses stay short however long the request was. */
const DETAILS_BYTES_MAX = 2_560;

/** Truncates a text to `max` characters without splitting a surrogate pair. */
export const clipped = (text: string, max = MESSAGE_MAX): string => {
  if (text.length <= max) return text;
  return `${text.slice(0, max - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
};

/** Names a number of things in a message: `1 second`, `2 seconds`. */
export const numbered = (n: number, thing: string): string => `${n} ${thing}${n === 1 ? "" : "s"}`;

/** Bytes that a character may have as JSON; an escaped one has twice as many. */
const CHARACTER_BYTES_MAX = 3;

/** Truncates a text to `max` characters, or to half as many where most of them are escaped in JSON. */
const shortened = (text: string, max: number): string => {
  const short = clipped(text, max);
  const bytes = Buffer.byteLength(JSON.stringify(short));
  return bytes <= max * CHARACTER_BYTES_MAX + 2 ? short : clipped(text, max / 2);
};

/** Returns the leading problems, truncated, as far as they fit; always the first one. */
const bounded = (details: readonly FieldProblem[]): FieldProblem[] => {
  const kept: FieldProblem[] = [];
  let bytes = 0;
  for (const { field, message } of details) {
    const problem = { field: shortened(field, FIELD_MAX), message: shortened(message, MESSAGE_MAX) };
    bytes += Buffer.byteLength(JSON.stringify(problem)) + 1;
    if (bytes > DETAILS_BYTES_MAX && kept.length > 0) break;
    kept.push(problem);
  }
  return kept;
};

/** With what a sign-in goes on that lacks its second factor. */
export type Challenge = {
  /** For POST /auth/login/mfa, valid once. */
  token: string;
  expiresAt: string;
  /** What the account has. */
  methods: ("TOTP" | "PASSKEY" | "RECOVERY_CODE")[];
};

type DomainErrorParts = {
  details?: FieldProblem[];
  reason?: string;
  retryAfterSeconds?: number;
  challenge?: Challenge;
};

/**
 * The only error meant for callers. Anything else that is thrown is a bug and results in status 500. Message
 * and details are truncated here, so that no error response exceeds a request of 4 KiB, whatever it quotes.
 */
export class DomainError extends Error {
  readonly code: ErrorCode;
  readonly details: FieldProblem[];
  readonly reason: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly challenge: Challenge | undefined;

  constructor(code: ErrorCode, message: string, parts: DomainErrorParts = {}) {
    super(shortened(message, MESSAGE_MAX));
    this.name = "DomainError";
    this.code = code;
    this.details = bounded(parts.details ?? []);
    this.reason = parts.reason;
    this.retryAfterSeconds = parts.retryAfterSeconds;
    this.challenge = parts.challenge;
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

/** One invalid field: the usual 400. */
export const invalid = (field: string, message: string, reason?: string) =>
  new DomainError("VALIDATION_ERROR", `${field}: ${message}`, {
    details: [{ field, message }],
    ...(reason === undefined ? {} : { reason }),
  });

/** As `invalid`, for a message that names the field itself. */
export const invalidField = (field: string, message: string) =>
  new DomainError("VALIDATION_ERROR", message, { details: [{ field, message }] });

/** Range of seconds over which refused clients are asked to retry. */
const SPREAD_SECONDS = 4;

/** Refuses with a varying Retry-After, so that clients do not all return at once. */
export const retryLater = (message: string, reason: string): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", message, {
    reason,
    retryAfterSeconds: 1 + Math.floor(Math.random() * SPREAD_SECONDS),
  });
