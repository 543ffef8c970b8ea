import { isLongJson } from "../domain/kernel/oversize.ts";

/** Refused items of one request that are told why, however short they are. */
export const SHORT_REFUSALS_EXPLAINED = 20;
/** An item of so many characters of JSON is always told why. */
export const LONG_ITEM_CHARS = 32;

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
    if (!isRefused(result) || isLongJson(items[place], LONG_ITEM_CHARS)) return result;
    explained += 1;
    return explained <= SHORT_REFUSALS_EXPLAINED ? result : brief(result);
  });
};
