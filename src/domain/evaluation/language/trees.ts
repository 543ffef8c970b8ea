import { isJsonObject } from "../../kernel/json.ts";
import { z } from "zod";
import { PROBLEMS_MAX } from "../../kernel/limits.ts";
import { bytesOf } from "../../kernel/hostile-json.ts";

/** Trees of conditions: `all`, `any` and `none` over leaves, with problems reported at their own paths. */

export type Problem = { path: PropertyKey[]; message: string };

export type GroupKey = "all" | "any" | "none";

/** A tree over leaves of one kind. */
export type Tree<L> = { all: Tree<L>[] } | { any: Tree<L>[] } | { none: Tree<L>[] } | L;

/** Maximum nesting of groups. */
export const TREE_MAX_DEPTH = 5;
/** Maximum leaves of a whole tree. */
export const TREE_MAX_LEAVES = 50;
/** Maximum members of one group. */
export const GROUP_MAX = 50;
/** Maximum bytes as JSON of all leaves of a tree; what is larger is not parsed. */
const LEAVES_MAX_BYTES = 1024 * 1024;

const keyOf = (node: object): GroupKey | undefined => {
  if (Object.hasOwn(node, "all")) return "all";
  if (Object.hasOwn(node, "any")) return "any";
  return Object.hasOwn(node, "none") ? "none" : undefined;
};

/** Returns the keyword and members of a group, or undefined for a leaf. */
export const groupOf = <L extends object>(
  node: Tree<L>,
): { key: GroupKey; members: Tree<L>[] } | undefined => {
  const key = keyOf(node);
  return key && { key, members: (node as Record<string, Tree<L>[]>)[key]! };
};

/** Visits every leaf of a tree from left to right, with its path, such as `all.0`. */
export const visitLeaves = <L extends object>(
  node: Tree<L>,
  look: (leaf: L, path: string) => void,
  path = "",
): void => {
  const group = groupOf(node);
  if (!group) return look(node as L, path);
  const at = path === "" ? group.key : `${path}.${group.key}`;
  group.members.forEach((member, i) => visitLeaves(member, look, `${at}.${i}`));
};

/** The three forms of a group over `member`, which may be lazy. */
export const groupShapes = <T>(member: z.ZodType<T>) =>
  [
    z.strictObject({ all: z.array(member).max(GROUP_MAX) }),
    z.strictObject({ any: z.array(member).min(1).max(GROUP_MAX) }),
    z.strictObject({ none: z.array(member).min(1).max(GROUP_MAX) }),
  ] as const;

const groupProblems = (
  node: object,
  { key, members }: { key: GroupKey; members: unknown },
  path: PropertyKey[],
): Problem[] => {
  const problems: Problem[] = Object.keys(node)
    .filter((name) => name !== key)
    .map((name) => ({ path: [...path, name], message: `cannot be combined with "${key}"` }));
  const at = [...path, key];
  if (!Array.isArray(members)) problems.push({ path: at, message: "must be a list of conditions" });
  else if (members.length === 0 && key !== "all") problems.push({ path: at, message: "must not be empty" });
  else if (members.length > GROUP_MAX) problems.push({ path: at, message: `more than ${GROUP_MAX} members` });
  return problems;
};

/**
 * Returns the problems of a tree, each with its path. A union of schemas could only report "invalid" at the
 * root, so a schema describes the shape and this function explains it. The cost is bounded for any input:
 * leaves beyond the permitted number are counted but not read.
 */
export const treeProblems = (
  root: unknown,
  leafProblems: (leaf: object, path: PropertyKey[]) => Problem[],
): Problem[] => {
  const problems: Problem[] = [];
  let leaves = 0;
  let bytes = 0;
  const look = (leaf: object, path: PropertyKey[]): void => {
    if (++leaves > TREE_MAX_LEAVES || bytes > LEAVES_MAX_BYTES) return;
    bytes += bytesOf(leaf);
    if (bytes <= LEAVES_MAX_BYTES) problems.push(...leafProblems(leaf, path));
    else problems.push({ path: [], message: `conditions of more than ${LEAVES_MAX_BYTES} bytes` });
  };
  const walk = (node: unknown, path: PropertyKey[], depth: number): void => {
    if (!isJsonObject(node)) return void problems.push({ path, message: "must be an object" });
    const group = groupOf(node);
    if (!group) return look(node, path);
    problems.push(...groupProblems(node, group, path));
    if (depth > TREE_MAX_DEPTH) {
      return void problems.push({ path, message: `nested deeper than ${TREE_MAX_DEPTH}` });
    }
    if (!Array.isArray(group.members) || group.members.length > GROUP_MAX) return;
    for (const [i, member] of group.members.entries()) {
      if (leaves > TREE_MAX_LEAVES || problems.length > PROBLEMS_MAX) return;
      walk(member, [...path, group.key, i], depth + 1);
    }
  };
  walk(root, [], 1);
  if (leaves > TREE_MAX_LEAVES)
    problems.push({ path: [], message: `more than ${TREE_MAX_LEAVES} conditions` });
  return problems.slice(0, PROBLEMS_MAX);
};

/** Returns the problems of a leaf that one schema describes. */
export const schemaProblems = (schema: z.ZodType, leaf: object, path: PropertyKey[]): Problem[] => {
  const parsed = schema.safeParse(leaf);
  return parsed.success
    ? []
    : parsed.error.issues.map((issue) => ({ path: [...path, ...issue.path], message: issue.message }));
};

/** Returns the problems of leaves of types that cannot be there, of a tree without other problems. */
export const typeProblems = (
  root: unknown,
  isAllowed: (type: string) => boolean,
  message: string,
): Problem[] => {
  const problems: Problem[] = [];
  visitLeaves(root as Tree<{ type: string }>, ({ type }, path) => {
    if (!isAllowed(type)) problems.push({ path: [...path.split("."), "type"], message });
  });
  return problems;
};

/** Reports a problem at a place of a definition. */
export type Refuse = (path: PropertyKey[], message: string) => void;

export const refuserOf =
  (context: z.RefinementCtx): Refuse =>
  (path, message) =>
    context.addIssue({ code: "custom", path, message });

/** Reports the problems of unchecked input; where there are any, it is not parsed. */
export const refuseAll = (
  value: unknown,
  problems: readonly Problem[],
  context: z.RefinementCtx,
): unknown => {
  for (const { path, message } of problems) context.addIssue({ code: "custom", path, message, input: value });
  return problems.length === 0 ? value : z.NEVER;
};

type Test<T> = (subject: T) => boolean;

// Small groups are unrolled: a loop over closures costs more than their comparisons.
const every = <T>(tests: readonly Test<T>[]): Test<T> => {
  const [first, second, third] = tests;
  if (!first) return () => true;
  if (!second) return first;
  if (tests.length === 2) return (subject) => first(subject) && second(subject);
  if (tests.length === 3) return (subject) => first(subject) && second(subject) && third!(subject);
  return (subject) => {
    for (const test of tests) if (!test(subject)) return false;
    return true;
  };
};

const some = <T>(tests: readonly Test<T>[]): Test<T> => {
  const [first, second, third] = tests;
  if (!first) return () => false;
  if (!second) return first;
  if (tests.length === 2) return (subject) => first(subject) || second(subject);
  if (tests.length === 3) return (subject) => first(subject) || second(subject) || third!(subject);
  return (subject) => {
    for (const test of tests) if (test(subject)) return true;
    return false;
  };
};

/** Combines the tests of a group's members; the first decisive member ends it. */
export const joinTests = <T>(key: GroupKey, tests: readonly Test<T>[]): Test<T> => {
  if (key === "all") return every(tests);
  const any = some(tests);
  return key === "any" ? any : (subject) => !any(subject);
};
