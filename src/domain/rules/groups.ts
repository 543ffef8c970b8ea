import { z } from "zod";
import type { Turn } from "../progression/turn.ts";
import type { Test } from "./conditions/condition.ts";
import {
  compileCondition,
  type Condition,
  CONDITION_TYPES,
  ConditionSchema,
  kindOf,
} from "./conditions/index.ts";

export const CONDITIONS_MAX_DEPTH = 5;
export const CONDITIONS_MAX_LEAVES = 50;
export const GROUP_MAX = 50;

/** Conditions put together; `{ all: [] }` is always true. */
export type Group = { all: ConditionNode[] } | { any: ConditionNode[] } | { none: ConditionNode[] };
export type ConditionNode = Group | Condition;

const GROUP_KEYS = ["all", "any", "none"] as const;
type GroupKey = (typeof GROUP_KEYS)[number];

/** The group's word and members, or undefined for a single condition. */
const groupOf = (node: object): { key: GroupKey; members: ConditionNode[] } | undefined => {
  const key = GROUP_KEYS.find((name) => Object.hasOwn(node, name));
  return key && { key, members: (node as Record<string, ConditionNode[]>)[key]! };
};

const Node: z.ZodType<ConditionNode> = z
  .lazy(() => z.union([Group, ConditionSchema]))
  .meta({ id: "RuleCondition" });

export const Group: z.ZodType<Group> = z
  .lazy(() =>
    z.union([
      z.strictObject({ all: z.array(Node).max(GROUP_MAX) }),
      z.strictObject({ any: z.array(Node).min(1).max(GROUP_MAX) }),
      z.strictObject({ none: z.array(Node).min(1).max(GROUP_MAX) }),
    ]),
  )
  .meta({ id: "RuleConditionGroup" });

export type Problem = { path: PropertyKey[]; message: string };

const isObject = (value: unknown): value is object =>
  value !== null && typeof value === "object" && !Array.isArray(value);

/**
 * What is wrong with a tree of conditions, each problem at its own path. A union of schemas could only say
 * "invalid" at the root, so `Group` describes the shape and this explains it.
 */
export const conditionProblems = (root: unknown): Problem[] => {
  const problems: Problem[] = [];
  let leaves = 0;
  const walk = (node: unknown, path: PropertyKey[], depth: number): void => {
    if (!isObject(node)) return void problems.push({ path, message: "must be an object" });
    const group = groupOf(node);
    if (!group) {
      leaves++;
      return void problems.push(...leafProblems(node, path));
    }
    problems.push(...groupProblems(node, group, path));
    if (depth > CONDITIONS_MAX_DEPTH) {
      return void problems.push({ path, message: `nested deeper than ${CONDITIONS_MAX_DEPTH}` });
    }
    if (!Array.isArray(group.members) || group.members.length > GROUP_MAX) return;
    group.members.forEach((member, i) => walk(member, [...path, group.key, i], depth + 1));
  };
  if (isObject(root) && !groupOf(root))
    problems.push({ path: [], message: 'must be {"all"}, {"any"} or {"none"}' });
  else walk(root, [], 1);
  if (leaves > CONDITIONS_MAX_LEAVES)
    problems.push({ path: [], message: `more than ${CONDITIONS_MAX_LEAVES} conditions` });
  return problems;
};

const groupProblems = (
  node: object,
  { key, members }: { key: GroupKey; members: unknown },
  path: PropertyKey[],
) => {
  const problems: Problem[] = Object.keys(node)
    .filter((name) => name !== key)
    .map((name) => ({ path: [...path, name], message: `cannot stand beside "${key}"` }));
  const at = [...path, key];
  if (!Array.isArray(members)) problems.push({ path: at, message: "must be a list of conditions" });
  else if (members.length === 0 && key !== "all") problems.push({ path: at, message: "must not be empty" });
  else if (members.length > GROUP_MAX) problems.push({ path: at, message: `more than ${GROUP_MAX} members` });
  return problems;
};

const leafProblems = (node: object, path: PropertyKey[]): Problem[] => {
  const type: unknown = (node as { type?: unknown }).type;
  const kind = typeof type === "string" ? kindOf(type) : undefined;
  if (!kind) return [{ path: [...path, "type"], message: `must be one of ${CONDITION_TYPES.join(", ")}` }];
  const parsed = kind.schema.safeParse(node);
  return parsed.success
    ? []
    : parsed.error.issues.map((issue) => ({ path: [...path, ...issue.path], message: issue.message }));
};

/** Turns a tree into one closure that stops at the first member that decides. */
export const compileGroup = (node: ConditionNode): Test => {
  const group = groupOf(node);
  if (!group) return compileCondition(node as Condition);
  const tests = group.members.map(compileGroup);
  const [only] = tests;
  if (group.key === "all") {
    if (tests.length === 0) return () => true;
    return tests.length === 1 ? only! : (turn) => tests.every((test) => test(turn));
  }
  return group.key === "any"
    ? (turn) => tests.some((test) => test(turn))
    : (turn) => !tests.some((test) => test(turn));
};

/** One node of an explained tree; `path` leads to it from the rule, such as `conditions.all[0]`. */
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

/** Evaluates every leaf, whatever the others say, and shows what each one saw. */
export const explainGroup = (node: ConditionNode, turn: Turn, path = "conditions"): TraceNode => {
  const group = groupOf(node);
  if (group) {
    const { key, members } = group;
    const children = members.map((member, i) => explainGroup(member, turn, `${path}.${key}[${i}]`));
    return { path, type: key, pass: DECIDE[key](children), children };
  }
  const condition = node as Condition;
  const { expected, actual } = kindOf(condition.type)!.explain(condition, turn);
  const op = "op" in condition ? { op: condition.op } : {};
  const seen = {
    ...(expected === undefined ? {} : { expected }),
    ...(actual === undefined ? {} : { actual }),
  };
  return { path, type: condition.type, ...op, ...seen, pass: compileCondition(condition)(turn) };
};
