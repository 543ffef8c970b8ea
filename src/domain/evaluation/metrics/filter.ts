import { z } from "zod";
import type { EventContext } from "../rule-event.ts";
import { checkOperand, comparisonFields, compileCheck, LIST_MAX } from "../language/operators.ts";
import { compilePath, Path, Scalar, scalarList } from "../language/syntax.ts";
import {
  groupOf,
  groupShapes,
  joinTests,
  schemaProblems,
  type Tree,
  treeProblems,
} from "../language/trees.ts";

/**
 * Filter of events: the operators of the rules' `event_property`, combined with `all`, `any` and `none`. A
 * filter compares with literals only: its result must not depend on when events are counted. Shared by
 * metrics and leaderboards.
 */
const Leaf = z
  .strictObject({
    path: Path,
    op: comparisonFields.op,
    value: z
      .union([Scalar, scalarList(1, LIST_MAX)], {
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

/** Compiles a filter to a closure over the event. */
export const compileFilter = (filter: Filter): ((context: EventContext) => boolean) => {
  const group = groupOf(filter);
  if (group) return joinTests(group.key, group.members.map(compileFilter));
  const { path, op, value } = filter as Leaf;
  const read = compilePath(path);
  const matches = compileCheck(op, value);
  return (context) => matches(read(context.event.properties), context);
};
