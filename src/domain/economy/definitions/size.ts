import { invalid } from "../../kernel/errors.ts";
import { DEFINITION_MAX_BYTES } from "../../kernel/limits.ts";
import { bytesOf } from "../../kernel/oversize.ts";

/** Reason of a 400 for a document that is too large. */
export const TOO_LARGE = "TOO_LARGE";

/**
 * Refuses a document that is too large, measured as it would be stored.
 * @throws DomainError VALIDATION_ERROR with the reason TOO_LARGE
 */
export const checkSize = (name: string, document: object, max = DEFINITION_MAX_BYTES): void => {
  const bytes = bytesOf(document);
  if (bytes > max) throw invalid(name, `must be at most ${max} bytes of JSON, and has ${bytes}`, TOO_LARGE);
};
