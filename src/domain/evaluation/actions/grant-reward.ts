import { z } from "zod";
import { about, CAUSES } from "../causes.ts";
import { Key, mentionsAt } from "../language/syntax.ts";
import { grantReward as grant } from "../rewards/shared-keys.ts";
import { RuleFailure } from "../running/outcome.ts";
import { actionFields, actionKind } from "./action.ts";

const YEAR_SECONDS = 31_536_000;

const schema = z.strictObject({
  type: z.literal("grant_reward"),
  ...actionFields,
  rewardKey: Key,
  quantity: z.int().min(1).max(100).default(1),
  delivery: z.enum(["AUTO", "CLAIM"]).default("AUTO"),
  expiresInSeconds: z.int().min(60).max(YEAR_SECONDS).optional(),
});

type Resolved = Pick<z.output<typeof schema>, "rewardKey" | "quantity" | "delivery"> & {
  expiresInSeconds?: number;
};

/**
 * Grants a reward of the catalogue. A reward that cannot be granted fails the rule, so that a player never
 * pays for nothing.
 */
export const grantReward = actionKind<typeof schema, Resolved>({
  type: "grant_reward",
  summary: "Grants a reward of the catalogue",
  schema,
  mentions: ({ rewardKey }) => mentionsAt("rewardKey", "reward", rewardKey),
  causes: ({ rewardKey }) => about(CAUSES.reward, rewardKey),
  canFail: () => true,
  compile: ({ rewardKey, quantity, delivery, expiresInSeconds }) => {
    const expiry = expiresInSeconds === undefined ? {} : { expiresInSeconds };
    const resolved = { rewardKey, quantity, delivery, ...expiry };
    return () => resolved;
  },
  perform: (turn, resolved, { key, cause, actionId }) => {
    const given = grant(turn, { ...resolved, key, cause });
    if ("problem" in given) throw new RuleFailure(actionId, `${given.problem} of ${resolved.rewardKey}`);
  },
});
