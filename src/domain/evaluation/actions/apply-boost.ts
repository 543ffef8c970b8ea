import { z } from "zod";
import { about, CAUSES } from "../causes.ts";
import { assetMentions } from "../language/mention.ts";
import { startBoost } from "../boosts/boosts.ts";
import { Key } from "../language/syntax.ts";
import { actionFields, actionKind, publishes } from "./action.ts";

const MONTH_SECONDS = 2_592_000;

const schema = z.strictObject({
  type: z.literal("apply_boost"),
  ...actionFields,
  boostKey: Key,
  applies: z
    .string()
    .regex(
      /^(xp|(currency|score):[a-z0-9][a-z0-9_-]{0,63})$/,
      "must be xp, currency:<key> or score:<leaderboard key>",
    ),
  factor: z.number().gt(0).max(100),
  durationSeconds: z.int().min(60).max(MONTH_SECONDS),
  uses: z.int().min(1).max(10_000).optional(),
  stacking: z.enum(["MAX", "MULTIPLY", "EXTEND", "REPLACE"]).default("MAX"),
});

/** Starts a boost that multiplies later gains of the player. */
export const applyBoost = actionKind({
  type: "apply_boost",
  summary: "Multiplies later grants",
  schema,
  mentions: ({ applies }) => assetMentions("applies", applies),
  causes: ({ boostKey }) => about(CAUSES.boost, boostKey),
  outcomes: () => publishes(),
  demands: () => [],
  canFail: () => false,
  compile: ({ boostKey, applies, factor, durationSeconds, uses, stacking }) => {
    const counted = uses === undefined ? {} : { uses };
    const resolved = { boostKey, applies, factor, durationSeconds, stacking, ...counted };
    return () => resolved;
  },
  perform: (turn, resolved, { cause }) => startBoost(turn, { ...resolved, cause }),
});
