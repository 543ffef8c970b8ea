import { z } from "zod";
import {
  BOOST_SECONDS_MAX,
  BoostFactor,
  BoostTarget,
  BoostUses,
  DesignedBoostSeconds,
} from "../../boosts/boost-fields.ts";
import { about, CAUSES } from "../../causes.ts";
import { Key } from "../../language/syntax.ts";
import { bundlePart, product } from "./part.ts";

export const boosts = bundlePart({
  schema: z
    .array(
      z.strictObject({
        boostKey: Key,
        applies: BoostTarget,
        factor: BoostFactor,
        durationSeconds: DesignedBoostSeconds,
        uses: BoostUses.optional(),
      }),
    )
    .max(10),
  times: (list, times) =>
    list.map(({ durationSeconds, uses, ...boost }) => ({
      ...boost,
      durationSeconds: product(durationSeconds, times, BOOST_SECONDS_MAX),
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
