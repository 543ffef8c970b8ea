import { invalid } from "../domain/kernel/errors.ts";
import { refuseHostile } from "../domain/kernel/hostile-json.ts";

/**
 * What a client sent, as REST would have had it: JSON that harms nobody; nothing is an empty object.
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
