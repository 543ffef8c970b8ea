import { z } from "zod";
import { byKey } from "./amount.ts";
import { bundlePart, eachTimes, keysOf, totals } from "./part.ts";

/** Freezes by key of the streak. */
export const streakFreezes = bundlePart({
  schema: byKey(z.int().min(1).max(100)),
  times: eachTimes,
  sum: totals,
  names: (amounts) => keysOf("streak", amounts),
  causes: () => [],
});
