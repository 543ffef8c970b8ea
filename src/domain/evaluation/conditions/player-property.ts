import { z } from "zod";
import { compileComparison, compilePlayerValue, expectedOf } from "../language/expressions.ts";
import { checkOperand, comparisonFields } from "../language/operators.ts";
import { fieldMentions, isPlayerValue, PLAYER_VALUES } from "../language/syntax.ts";
import { conditionKind, reads, readsTimed } from "./condition.ts";

/** Compares a value of the player at the moment the rule runs, after the rules before it. */
export const playerProperty = conditionKind({
  type: "player_property",
  summary: "The current value of a field of the player",
  schema: z
    .strictObject({
      type: z.literal("player_property"),
      field: z.string().max(400).refine(isPlayerValue, `must be ${PLAYER_VALUES}`),
      ...comparisonFields,
    })
    .superRefine(checkOperand),
  mentions: ({ field }) => fieldMentions("field", field),
  inputs: ({ field, op }) =>
    field === "lives" || op === "within_last" || op === "older_than"
      ? readsTimed(`field:${field}`)
      : reads(`field:${field}`),
  compile: (condition) => {
    const read = compilePlayerValue(condition.field);
    const holds = compileComparison(condition);
    return (turn) => holds(read(turn), turn);
  },
  explain: (condition, turn) => ({
    expected: expectedOf(condition, turn),
    actual: compilePlayerValue(condition.field)(turn),
  }),
});
