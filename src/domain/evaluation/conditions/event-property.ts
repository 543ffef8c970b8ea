import { z } from "zod";
import { compileComparison, expectedOf } from "../language/expressions.ts";
import { checkOperand, comparisonFields } from "../language/operators.ts";
import { compilePath, Path } from "../language/syntax.ts";
import { conditionKind, reads } from "./condition.ts";

/** Compares a property of the triggering event. */
export const eventProperty = conditionKind({
  type: "event_property",
  summary: "A property of the event",
  schema: z
    .strictObject({ type: z.literal("event_property"), path: Path, ...comparisonFields })
    .superRefine(checkOperand),
  inputs: () => reads(),
  compile: (condition) => {
    const read = compilePath(condition.path);
    const holds = compileComparison(condition);
    return (turn) => holds(read(turn.event.properties), turn);
  },
  explain: (condition, turn) => ({
    expected: expectedOf(condition, turn),
    actual: compilePath(condition.path)(turn.event.properties),
  }),
});
