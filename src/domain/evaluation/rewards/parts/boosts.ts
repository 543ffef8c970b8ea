import { z } from "zod";
import { about, CAUSES } from "../../causes.ts";
import { Key } from "../../language/syntax.ts";
import { bundlePart, product } from "./part.ts";

/** Maximum duration of one boost of a bundle, also when a reward is granted several times, in seconds. */
export const BUNDLE_BOOST_SECONDS_MAX = 2_592_000;

export const boosts = bundlePart({
  schema: z
    .array(
      z.strictObject({
        boostKey: Key,
        applies: z.string().regex(/^(xp|currency:[a-z0-9_-]{1,64}|score:[a-z0-9_-]{1,64})$/),
        factor: z.number().gt(0).max(100),
        durationSeconds: z.int().min(60).max(BUNDLE_BOOST_SECONDS_MAX),
        uses: z.int().min(1).max(10_000).optional(),
      }),
    )
    .max(10),
  times: (list, times) =>
    list.map(({ durationSeconds, uses, ...boost }) => ({
      ...boost,
      durationSeconds: product(durationSeconds, times, BUNDLE_BOOST_SECONDS_MAX),
      ...(uses === undefined ? {} : { uses: product(uses, times) }),
    })),
  sum: (lists) => lists.flat(),
  names: (list) =>
    list.flatMap(({ applies }, i) => {
      const [what, key = ""] = applies.split(":", 2);
      return what === "currency" ? [{ kind: "currency" as const, key, at: `${i}.applies` }] : [];
    }),
  causes: (list) => list.flatMap(({ boostKey }) => about(CAUSES.boost, boostKey)),
});
