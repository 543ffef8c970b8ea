import { z } from "zod";
import { compileComparison, expectedOf } from "../language/comparisons.ts";
import { compilePlayerValue } from "../language/lookups.ts";
import { checkOperand, comparisonFields } from "../language/operators.ts";
import { isPlayerValue, PLAYER_VALUES } from "../language/references.ts";
import { conditionKind } from "./condition.ts";

/** The player's value at the moment the rule runs, after the rules before it. */
export const playerProperty = conditionKind({
  type: "player_property",
  schema: z
    .strictObject({
      type: z.literal("player_property"),
      field: z.string().max(400).refine(isPlayerValue, `must be ${PLAYER_VALUES}`),
      ...comparisonFields,
    })
    .superRefine(checkOperand),
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
