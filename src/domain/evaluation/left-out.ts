/**
 * Bytes of a document as PostgreSQL stores it, compressed or not, above which it is not even read to be
 * evaluated. Documents are refused long before that; those of before there were bounds may be of any size.
 */
export const STORED_MAX_BYTES = 256 * 1024;

/** Steps of reading a document above which it is not compiled: one of DEFINITION_MAX_BYTES has a tenth. */
export const DOCUMENT_STEPS_MAX = 250_000;

/** A definition that evaluation does without: it is too large, or cannot be compiled. */
export type LeftOut = { kind: string; id: string; key: string; version: number; why: string };

export const TOO_LARGE_TO_RUN = "it is too large";

/** Why what threw `error` is left out. */
export const whyNot = (error: unknown): string =>
  error instanceof RangeError ? "it is nested too deep" : `it cannot be compiled: ${String(error)}`;
