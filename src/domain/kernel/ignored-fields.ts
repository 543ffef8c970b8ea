import { clipped } from "./errors.ts";
import { isJsonObject } from "./json.ts";

/** Names in one warning, and characters of each: a warning is short however many fields there are. */
const NAMED_MAX = 5;
const NAME_MAX = 40;

/** Returns the names of an object's fields that are none of `known`, in order; none of anything else. */
export const ignoredFields = (value: unknown, known: ReadonlySet<string>): string[] =>
  isJsonObject(value) ? Object.keys(value).filter((name) => !known.has(name)) : [];

/**
 * Returns the warnings about ignored fields: one that names the first few, or none.
 * @param of what the fields were given for, such as `an event`
 */
export const ignoredWarnings = (names: readonly string[], of: string): string[] => {
  if (names.length === 0) return [];
  const shown = names.slice(0, NAMED_MAX).map((name) => clipped(name, NAME_MAX));
  const more = names.length > NAMED_MAX ? ` and ${names.length - NAMED_MAX} more` : "";
  return [`${shown.join(", ")}${more}: not a field of ${of}, and ignored`];
};
