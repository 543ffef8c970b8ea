import { z } from "zod";
import { TIERS_MAX } from "../../badges/tiers.ts";
import { about, CAUSES } from "../../causes.ts";
import { Key } from "../../language/syntax.ts";
import { bundlePart } from "./part.ts";

/** Maximum awards of one badge of a bundle when the bundle is granted several times. */
const TIMES_MAX = 100;

export const badges = bundlePart({
  schema: z.array(z.strictObject({ badgeKey: Key, tier: z.int().min(1).max(TIERS_MAX).optional() })).max(20),
  // One that is not repeatable counts once.
  times: (list, times) =>
    list.flatMap((badge) => Array.from({ length: Math.min(TIMES_MAX, times) }, () => badge)),
  sum: (lists) => lists.flat(),
  names: (list) =>
    list.map(({ badgeKey: key, tier }, i) => ({ kind: "badge", key, tier, at: `${i}.badgeKey` })),
  causes: (list) => list.flatMap(({ badgeKey }) => about(CAUSES.badge, badgeKey)),
});
