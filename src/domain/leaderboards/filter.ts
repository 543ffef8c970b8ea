import { z } from "zod";
import type { Turn } from "../progression/turn.ts";
import { checkOperand, compileComparison, comparisonFields, LIST_MAX } from "../rules/operators.ts";
import { compilePath } from "../rules/paths.ts";
import { Path, Scalar } from "../rules/syntax.ts";

/**
 * Which events count, by one property: the operators of the rules' `event_property`. A filter compares with
 * literals only: what a board counts must not depend on when it is counted.
 */
export const Filter = z
  .strictObject({
    path: Path,
    op: comparisonFields.op,
    value: z
      .union([Scalar, z.array(Scalar).min(1).max(LIST_MAX)], {
        error: "must be a literal or a list of literals",
      })
      .optional(),
  })
  .superRefine(checkOperand);
export type Filter = z.output<typeof Filter>;

/** Turns a filter into a closure over the event. */
export const compileFilter = ({ path, op, value }: Filter): ((turn: Pick<Turn, "event">) => boolean) => {
  const read = compilePath(path);
  const matches = compileComparison({ op, value });
  // Only a `$ref`, which a filter does not take, reads more of the turn than its event.
  return (turn) => matches(read(turn.event.properties), turn as Turn);
};
