import { z } from "zod";
import { about, CAUSES } from "../causes.ts";
import { assetMentions, Key } from "../language/syntax.ts";
import {
  BoostFactor,
  BoostStacking,
  BoostTarget,
  BoostUses,
  DesignedBoostSeconds,
} from "../boosts/campaign-boost.ts";
import { startBoost } from "../boosts/boosts.ts";
import { actionFields, actionKind } from "./action.ts";

const schema = z.strictObject({
  type: z.literal("apply_boost"),
  ...actionFields,
  boostKey: Key,
  applies: BoostTarget,
  factor: BoostFactor,
  durationSeconds: DesignedBoostSeconds,
  uses: BoostUses.optional(),
  stacking: BoostStacking.default("MAX"),
});

/** Starts a boost that multiplies later gains of the player. */
export const applyBoost = actionKind({
  type: "apply_boost",
  summary: "Multiplies later grants",
  schema,
  mentions: ({ applies }) => assetMentions("applies", applies),
  causes: ({ boostKey }) => about(CAUSES.boost, boostKey),
  compile: ({ boostKey, applies, factor, durationSeconds, uses, stacking }) => {
    const counted = uses === undefined ? {} : { uses };
    const resolved = { boostKey, applies, factor, durationSeconds, stacking, ...counted };
    return () => resolved;
  },
  perform: (turn, resolved, { cause }) => startBoost(turn, { ...resolved, cause }),
});
