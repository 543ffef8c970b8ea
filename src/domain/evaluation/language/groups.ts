import { z } from "zod";
import {
  compileCondition,
  type Condition,
  CONDITION_TYPES,
  ConditionSchema,
  isExpensive,
  kindOf,
} from "../conditions/condition-kinds.ts";
import type { Test } from "../conditions/condition.ts";
import {
  groupOf,
  groupShapes,
  joinTests,
  type Problem,
  schemaProblems,
  type Tree,
  treeProblems,
  visitLeaves,
} from "./trees.ts";
import type { Metric } from "../metrics/compile.ts";
import type { Turn } from "../turn.ts";
import { isJsonObject } from "../../kernel/json.ts";

/** Maximum characters of a text in an explanation. */
export const SHOWN_TEXT_MAX = 64;
/** Maximum characters of a list or object as JSON: enough for the values of a condition on the time. */
export const SHOWN_JSON_MAX = 128;

/**
 * Truncates a value for explanations: short values are returned unchanged, others as a text of their
 * beginning and "…". Reads no more than that.
 */
export const showValue = (value: unknown): unknown => {
  if (typeof value === "string") return isShort(value, SHOWN_TEXT_MAX) ? value : cut(value, SHOWN_TEXT_MAX);
  if (typeof value !== "object" || value === null) return value;
  const json = jsonBegin(value, SHOWN_JSON_MAX);
  return isShort(json, SHOWN_JSON_MAX) ? value : cut(json, SHOWN_JSON_MAX);
};

const isShort = (text: string, max: number): boolean => text.length <= max;

/** Whole characters only: PostgreSQL rejects half a surrogate pair. */
const cut = (text: string, max: number): string => `${text.slice(0, max).toWellFormed()}…`;

/** Returns the JSON of a value, truncated to about `max` characters. */
const jsonBegin = (value: unknown, max: number): string => {
  if (typeof value === "string") return JSON.stringify(value.slice(0, max));
  if (Array.isArray(value)) return `[${partsBegin(value, max)}]`;
  if (typeof value === "object" && value !== null) return `{${partsBegin(value, max)}}`;
  return JSON.stringify(value) ?? "null";
};

/** Returns the text between the brackets of a list or an object. */
const partsBegin = (value: object, max: number): string => {
  let text = "";
  for (const [name, part] of partsOf(value)) {
    if (text !== "") text += ",";
    if (name !== undefined) text += `${JSON.stringify(name.slice(0, max))}:`;
    if (text.length <= max) text += jsonBegin(part, max - text.length);
    if (text.length > max) break;
  }
  return text;
};

/** Yields the parts of a list or an object one by one, with their names in an object. */
const partsOf = function* (value: object): Generator<[name: string | undefined, part: unknown]> {
  if (Array.isArray(value)) {
    for (const part of value) yield [undefined, part];
    return;
  }
  const names = Object.keys(value);
  for (const name of names) {
    const part = (value as Record<string, unknown>)[name];
    if (part !== undefined) yield [name, part];
  }
};

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

/** Returns the number of conditions of a tree. */
export const countConditions = (node: ConditionNode): number => {
  let count = 0;
  visitLeaves(node, () => count++);
  return count;
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

/** Evaluates every leaf, whatever the others say, and records the values of each. */
export const explainGroup = (node: ConditionNode, turn: Turn, path = "conditions"): TraceNode => {
  const group = groupOf(node);
  if (group) {
    const { key, members } = group;
    const children = members.map((member, i) => explainGroup(member, turn, `${path}.${key}[${i}]`));
    const passes = children.map(({ pass }) => pass);
    const pass = key === "all" ? !passes.includes(false) : passes.includes(true) === (key === "any");
    return { path, type: key, pass, children };
  }
  const condition = node as Condition;
  const { expected, actual } = kindOf(condition.type)!.explain(condition, turn);
  const op = "op" in condition ? { op: condition.op } : {};
  const seen = {
    ...(expected === undefined ? {} : { expected: showValue(expected) }),
    ...(actual === undefined ? {} : { actual: showValue(actual) }),
  };
  return { path, type: condition.type, ...op, ...seen, pass: compileCondition(condition)(turn) };
};

/** Returns the metrics that a tree of conditions reads. */
export const conditionMetrics = (conditions: ConditionNode): Metric[] => {
  const metrics: Metric[] = [];
  visitLeaves(conditions, (leaf) => void metrics.push(...(kindOf(leaf.type)?.metrics(leaf) ?? [])));
  return metrics;
};
