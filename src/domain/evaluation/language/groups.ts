import { isJsonObject } from "../../kernel/json.ts";
import { z } from "zod";
import type { Turn } from "../turn.ts";
import type { Test } from "../conditions/condition.ts";
import {
  compileCondition,
  type Condition,
  conditionSteps,
  CONDITION_TYPES,
  ConditionSchema,
  isExpensive,
  kindOf,
} from "../conditions/condition-kinds.ts";
import { showValue } from "./shown-value.ts";
import {
  groupOf,
  type GroupKey,
  groupShapes,
  joinTests,
  type Problem,
  schemaProblems,
  type Tree,
  treeProblems,
  visitLeaves,
} from "./trees.ts";

/** A group of conditions; `{ all: [] }` is always true. */
export type Group = { all: ConditionNode[] } | { any: ConditionNode[] } | { none: ConditionNode[] };
export type ConditionNode = Tree<Condition>;

const Node: z.ZodType<ConditionNode> = z
  .lazy(() => z.union([Group, ConditionSchema]))
  .meta({ id: "RuleCondition" });

export const Group: z.ZodType<Group> = z
  .lazy(() => z.union(groupShapes(Node)))
  .meta({ id: "RuleConditionGroup" });

/** Returns the problems of a tree of conditions, each with its path. The root must be a group. */
export const conditionProblems = (root: unknown): Problem[] =>
  isJsonObject(root) && !groupOf(root)
    ? [{ path: [], message: 'must be {"all"}, {"any"} or {"none"}' }]
    : treeProblems(root, leafProblems);

const leafProblems = (node: object, path: PropertyKey[]): Problem[] => {
  const type: unknown = (node as { type?: unknown }).type;
  const kind = typeof type === "string" ? kindOf(type) : undefined;
  if (!kind) return [{ path: [...path, "type"], message: `must be one of ${CONDITION_TYPES.join(", ")}` }];
  return schemaProblems(kind.schema, node, path);
};

type Compiled = { test: Test; isExpensive: boolean };

const compileNode = (node: ConditionNode): Compiled => {
  const group = groupOf(node);
  if (!group) {
    const condition = node as Condition;
    return { test: compileCondition(condition), isExpensive: isExpensive(condition.type) };
  }
  const members = group.members.map(compileNode);
  const expensive = members.filter((member) => member.isExpensive);
  // Conditions have no side effects, so the cheap members of a group are tested before the expensive ones.
  const inOrder =
    expensive.length === 0 ? members : [...members.filter((member) => !member.isExpensive), ...expensive];
  const tests = inOrder.map(({ test }) => test);
  return { test: joinTests(group.key, tests), isExpensive: expensive.length > 0 };
};

/** Compiles a tree to one closure that stops at the first decisive member. */
export const compileGroup = (node: ConditionNode): Test => compileNode(node).test;

/** Returns the maximum steps of testing the whole tree, besides texts and lists that it searches. */
export const groupSteps = (node: ConditionNode): number => {
  let steps = 0;
  visitLeaves(node, (leaf) => (steps += conditionSteps(leaf)));
  return steps;
};

/**
 * One node of an explained tree; `path` leads to it from the rule, such as `conditions.all[0]`. Values are
 * truncated by `showValue`.
 */
export type TraceNode = {
  path: string;
  type: string;
  op?: string;
  expected?: unknown;
  actual?: unknown;
  pass: boolean;
  children?: TraceNode[];
};

const DECIDE: Record<GroupKey, (children: readonly TraceNode[]) => boolean> = {
  all: (children) => children.every(({ pass }) => pass),
  any: (children) => children.some(({ pass }) => pass),
  none: (children) => !children.some(({ pass }) => pass),
};

/**
 * Evaluates every leaf, whatever the others say, and records the values of each. The cost is charged to the
 * turn's steps.
 */
export const explainGroup = (node: ConditionNode, turn: Turn, path = "conditions"): TraceNode => {
  const group = groupOf(node);
  if (group) {
    const { key, members } = group;
    const children = members.map((member, i) => explainGroup(member, turn, `${path}.${key}[${i}]`));
    return { path, type: key, pass: DECIDE[key](children), children };
  }
  const condition = node as Condition;
  const { steps } = turn.root;
  const { expected, actual } = kindOf(condition.type)!.explain(condition, turn);
  // The test is compiled again, and with it a list of values.
  if ("value" in condition && Array.isArray(condition.value)) steps.spend(condition.value.length);
  const op = "op" in condition ? { op: condition.op } : {};
  const seen = {
    ...(expected === undefined ? {} : { expected: showValue(expected, steps) }),
    ...(actual === undefined ? {} : { actual: showValue(actual, steps) }),
  };
  return { path, type: condition.type, ...op, ...seen, pass: compileCondition(condition)(turn) };
};
