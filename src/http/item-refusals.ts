import { isLongJson } from "../domain/kernel/oversize.ts";

/** Number of refused items per request that get an explanation, however short they are. */
export const SHORT_REFUSALS_EXPLAINED = 20;
/** An item with this many characters of JSON always gets an explanation. */
export const LONG_ITEM_CHARS = 32;

/**
 * Returns the results of a batch's items in order, with refusals abbreviated where explanations would make
 * the response many times as long as the request: those of short items, after the first few.
 */
export const explainedInPart = <T, B>(
  items: readonly unknown[],
  results: readonly T[],
  isRefused: (result: T) => boolean,
  brief: (result: T) => B,
): (T | B)[] => {
  let explained = 0;
  return results.map((result, place) => {
    if (!isRefused(result) || isLongJson(items[place], LONG_ITEM_CHARS)) return result;
    explained += 1;
    return explained <= SHORT_REFUSALS_EXPLAINED ? result : brief(result);
  });
};
