/**
 * Maximum bytes of a stored document, compressed or not, that is read for evaluation. Larger documents are
 * rejected when saved, but those from before there were limits may have any size.
 */
export const STORED_MAX_BYTES = 256 * 1024;

/** Maximum bytes as JSON of a document that is compiled: a stored one may be compressed. */
export const DOCUMENT_MAX_BYTES = 1024 * 1024;

/** A definition left out of evaluation because it is too large or does not compile. */
export type LeftOut = { kind: string; id: string; key: string; version: number; why: string };

export const TOO_LARGE_TO_RUN = "it is too large";

/** Returns why a definition that threw `error` is left out. */
export const whyNot = (error: unknown): string =>
  error instanceof RangeError ? "it is nested too deep" : `it cannot be compiled: ${String(error)}`;
