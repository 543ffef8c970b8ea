import { about, CAUSES } from "../../causes.ts";
import { Amount, byKey } from "./amount.ts";
import { bundlePart, eachTimes, keysOf, totals } from "./part.ts";

/** Amounts by key of the currency. */
export const currencies = bundlePart({
  schema: byKey(Amount),
  times: eachTimes,
  sum: totals,
  names: (amounts) => keysOf("currency", amounts),
  causes: (amounts) => Object.keys(amounts).flatMap((key) => about(CAUSES.gain, key)),
});
