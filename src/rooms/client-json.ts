import { invalid } from "../domain/kernel/errors.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";

/**
 * Validates a client's value as REST would: harmless JSON only; a missing value becomes an empty object.
 * @throws DomainError VALIDATION_ERROR
 */
export const asJson = (raw: unknown): unknown => {
  refuseHostile("", raw);
  try {
    return JSON.parse(JSON.stringify(raw ?? {}));
  } catch {
    throw invalid("body", "must be JSON");
  }
};
