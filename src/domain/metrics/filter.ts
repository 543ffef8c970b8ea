import { z } from "zod";
import type { Turn } from "../progression/turn.ts";
import { checkOperand, comparisonFields, compileComparison, LIST_MAX } from "../rules/language/operators.ts";
import { compilePath } from "../rules/language/paths.ts";
import { Path, Scalar } from "../rules/language/syntax.ts";
import {
  groupOf,
  groupShapes,
  joinTests,
  schemaProblems,
  type Tree,
  treeProblems,
} from "../rules/language/trees.ts";

/**
 * Which events count: the operators of the rules' `event_property`, put together with `all`, `any` and
 * `none`. A filter compares with literals only: what counts must not depend on when it is counted. Metrics
 * and leaderboards share it.
 */
const Leaf = z
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
type Leaf = z.output<typeof Leaf>;

export type Filter = Tree<Leaf>;

const Shape: z.ZodType<Filter> = z
  .lazy(() => z.union([...groupShapes(Shape), Leaf]))
  .meta({ id: "EventFilter" });

const explain = (filter: unknown, context: z.RefinementCtx): unknown => {
  const problems = treeProblems(filter, (leaf, path) => schemaProblems(Leaf, leaf, path));
  for (const { path, message } of problems)
    context.addIssue({ code: "custom", path, message, input: filter });
  return problems.length === 0 ? filter : z.NEVER;
};

export const Filter = z.preprocess(explain, Shape);

type EventOnly = Pick<Turn, "event">;

/** Turns a filter into a closure over the event. */
export const compileFilter = (filter: Filter): ((turn: EventOnly) => boolean) => {
  const group = groupOf(filter);
  if (group) return joinTests(group.key, group.members.map(compileFilter));
  const { path, op, value } = filter as Leaf;
  const read = compilePath(path);
  const matches = compileComparison({ op, value });
  // Only a `$ref`, which a filter does not take, reads more of the turn than its event.
  return (turn) => matches(read(turn.event.properties), turn as Turn);
};
