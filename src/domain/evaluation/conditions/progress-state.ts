import { z } from "zod";
import { TIERS_MAX } from "../../kernel/limits.ts";
import { ADVENTURE_STATES } from "../adventures/row.ts";
import { QUEST_STATES } from "../quests/row.ts";
import type { Turn } from "../turn.ts";
import { Key, mentionsAt } from "../language/syntax.ts";
import { refuserOf } from "../language/trees.ts";
import { conditionKind, reads, readsTimed } from "./condition.ts";

const BADGE_STATES = ["HELD", "NOT_HELD"];
const STEP_STATES = ["DONE", "NOT_DONE"];

const STATES: Readonly<Record<string, readonly string[]>> = {
  badge: BADGE_STATES,
  quest: QUEST_STATES,
  quest_step: STEP_STATES,
  adventure: ADVENTURE_STATES,
};

const schema = z
  .strictObject({
    type: z.literal("progress_state"),
    entity: z.enum(["badge", "quest", "quest_step", "adventure"], {
      error: "must be badge, quest, quest_step or adventure",
    }),
    key: Key,
    stepKey: Key.optional().describe("The step, for a quest_step"),
    states: z
      .array(z.enum([...BADGE_STATES, ...STEP_STATES, ...QUEST_STATES]))
      .min(1)
      .max(QUEST_STATES.length)
      .describe(
        "HELD or NOT_HELD of a badge, DONE or NOT_DONE of a step, states of a quest in its current cycle, " +
          "states of an adventure",
      ),
    minTier: z.int().min(1).max(TIERS_MAX).optional().describe("Of a badge: a lower tier counts as NOT_HELD"),
    minPercent: z
      .int()
      .min(0)
      .max(100)
      .optional()
      .describe("Of a quest or adventure: with less it is in none of the states"),
  })
  .superRefine(({ entity, states, stepKey, minTier, minPercent }, context) => {
    const refuse = refuserOf(context);
    const known = STATES[entity]!;
    const unknown = states.findIndex((state) => !known.includes(state));
    if (unknown !== -1) refuse(["states", unknown], `must be ${known.join(" or ")} for a ${entity}`);
    if ((stepKey !== undefined) !== (entity === "quest_step"))
      refuse(["stepKey"], stepKey === undefined ? "is needed for a quest_step" : "is for a quest_step");
    if (minTier !== undefined && entity !== "badge") refuse(["minTier"], "is for a badge");
    if (minPercent !== undefined && entity !== "quest" && entity !== "adventure")
      refuse(["minPercent"], "is for a quest or an adventure");
  });
type ProgressState = z.output<typeof schema>;

const badgeState = ({ key, minTier = 1 }: ProgressState, { player }: Turn): string =>
  (player.badges.get(key)?.tier ?? 0) >= minTier ? "HELD" : "NOT_HELD";

/** An unknown quest or adventure, or one with too small a percent, is in no state. */
const stateOf = (condition: ProgressState, turn: Turn): string | undefined => {
  if (condition.entity === "badge") return badgeState(condition, turn);
  if (condition.entity === "adventure") return reachedState(condition, turn.adventureStanding(condition.key));
  const standing = turn.questStanding(condition.key);
  if (condition.entity === "quest_step")
    return standing?.doneSteps.includes(condition.stepKey!) === true ? "DONE" : "NOT_DONE";
  return reachedState(condition, standing);
};

const reachedState = (
  { minPercent = 0 }: ProgressState,
  standing: { state: string; percent: number } | undefined,
): string | undefined => (standing && standing.percent >= minPercent ? standing.state : undefined);

/** Compares the player's state of a badge, a quest or an adventure, after the rules before this one. */
export const progressState = conditionKind({
  type: "progress_state",
  summary: "Whether the player holds a badge, or where a quest, a step of it or an adventure stands",
  schema,
  mentions: ({ entity, key }) => mentionsAt("key", entity === "quest_step" ? "quest" : entity, key),
  // Cycles, and times of availability, pass by themselves.
  inputs: ({ entity, key }) => {
    if (entity === "badge") return reads(`badge:${key}`);
    return readsTimed(`${entity === "adventure" ? entity : "quest"}:${key}`);
  },
  compile: (condition) => {
    const states: ReadonlySet<string | undefined> = new Set(condition.states);
    return (turn) => states.has(stateOf(condition, turn));
  },
  explain: (condition, turn) => ({ expected: condition.states, actual: stateOf(condition, turn) }),
});
