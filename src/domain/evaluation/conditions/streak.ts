import { z } from "zod";
import { streakMeasure } from "../streaks/advance.ts";
import { compileComparison, expectedOf } from "../language/expressions.ts";
import { checkOperand, numericFields } from "../language/operators.ts";
import { Key, mentionsAt } from "../language/syntax.ts";
import { conditionKind, reads } from "./condition.ts";

/** Compares a streak of the player at the event's time, after the event has counted for it. */
export const streak = conditionKind({
  type: "streak",
  summary: "The length of a streak, or the freezes held",
  isExpensive: true,
  schema: z
    .strictObject({
      type: z.literal("streak"),
      streakKey: Key,
      measure: z.enum(["current", "longest", "freezes"]).default("current"),
      ...numericFields,
    })
    .superRefine(checkOperand),
  mentions: ({ streakKey }) => mentionsAt("streakKey", "streak", streakKey),
  // A streak that breaks is settled by the sweep of streaks, which changes the player's holdings.
  inputs: ({ streakKey }) => reads(`streak:${streakKey}`),
  compile: (condition) => {
    const { streakKey, measure } = condition;
    const holds = compileComparison(condition);
    return (turn) => holds(streakMeasure(turn, streakKey, measure), turn);
  },
  explain: (condition, turn) => ({
    expected: expectedOf(condition, turn),
    actual: streakMeasure(turn, condition.streakKey, condition.measure),
  }),
});
