import { z } from "zod";
import { TIERS_MAX } from "../badges/tiers.ts";
import type { Turn } from "../turn.ts";
import { Key } from "../language/syntax.ts";
import { mentionsAt } from "../language/mention.ts";
import { conditionKind, reads } from "./condition.ts";

const NOT_YET = ["quest", "quest_step", "adventure"];

const schema = z.strictObject({
  type: z.literal("progress_state"),
  entity: z.literal("badge", {
    error: ({ input }) =>
      NOT_YET.includes(String(input)) ? `${String(input)} is not available yet` : "must be badge",
  }),
  key: Key,
  states: z
    .array(z.enum(["HELD", "NOT_HELD"], { error: "must be HELD or NOT_HELD for a badge" }))
    .min(1)
    .max(2),
  minTier: z.int().min(1).max(TIERS_MAX).optional().describe("A lower tier counts as NOT_HELD"),
});
type ProgressState = z.output<typeof schema>;

const stateOf = ({ key, minTier = 1 }: ProgressState, { player }: Turn): "HELD" | "NOT_HELD" =>
  (player.badges.get(key)?.tier ?? 0) >= minTier ? "HELD" : "NOT_HELD";

/** Compares the player's state of a badge, after the rules before this one. */
export const progressState = conditionKind({
  type: "progress_state",
  summary: "Whether the player holds a badge; quests and adventures are not available yet",
  schema,
  isExpensive: false,
  steps: () => 1,
  mentions: ({ key }) => mentionsAt("key", "badge", key),
  metrics: () => [],
  inputs: ({ entity, key }) => reads(`${entity}:${key}`),
  compile: (condition) => {
    const { states } = condition;
    return (turn) => states.includes(stateOf(condition, turn));
  },
  explain: (condition, turn) => ({ expected: condition.states, actual: stateOf(condition, turn) }),
});
