import { z } from "zod";
import { about, CAUSES } from "../../causes.ts";
import { Key } from "../../language/syntax.ts";
import { bundlePart, product } from "./part.ts";

/** Maximum pieces of a reward in one grant. */
export const QUANTITY_MAX = 1_000_000;

/** Rewards of the catalogue. */
export const rewards = bundlePart({
  schema: z.array(z.strictObject({ rewardKey: Key, quantity: z.int().min(1).max(100).optional() })).max(20),
  times: (list, times) =>
    list.map(({ rewardKey, quantity = 1 }) => ({
      rewardKey,
      quantity: product(quantity, times, QUANTITY_MAX),
    })),
  sum: (lists) => lists.flat(),
  names: (list) => list.map(({ rewardKey: key }, i) => ({ kind: "reward", key, at: `${i}.rewardKey` })),
  causes: (list) => list.flatMap(({ rewardKey }) => about(CAUSES.reward, rewardKey)),
});
