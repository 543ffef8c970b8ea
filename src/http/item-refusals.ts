/** Refused items of one request that are told why, however short they are. */
export const SHORT_REFUSALS_EXPLAINED = 20;
/** An item of so many characters of JSON is always told why. */
export const LONG_ITEM_CHARS = 32;

/** Characters that remain of `left` after the JSON of `value`, which is looked at no further than that. */
const without = (value: unknown, left: number): number => {
  if (left <= 0) return left;
  if (typeof value === "string") return left - value.length - 2;
  if (typeof value !== "object" || value === null) return left - 1;
  let rest = left - 2;
  for (const name in value) {
    if (rest <= 0) break;
    rest = without(
      (value as Record<string, unknown>)[name],
      Array.isArray(value) ? rest : without(name, rest),
    );
  }
  return rest;
};

/** At least so many characters of JSON; for a string as it is before anything is escaped. */
const isLong = (item: unknown): boolean => without(item, LONG_ITEM_CHARS) <= 0;

/**
 * The results of a batch's items in their places, the refused ones in brief where explaining them would make
 * the answer many times as long as the request: those of short items, after the first few.
 */
export const explainedInPart = <T, B>(
  items: readonly unknown[],
  results: readonly T[],
  isRefused: (result: T) => boolean,
  brief: (result: T) => B,
): (T | B)[] => {
  let explained = 0;
  return results.map((result, place) => {
    if (!isRefused(result) || isLong(items[place])) return result;
    explained += 1;
    return explained <= SHORT_REFUSALS_EXPLAINED ? result : brief(result);
  });
};
