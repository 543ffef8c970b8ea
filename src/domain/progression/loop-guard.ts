import type { Turn } from "./turn.ts";

/** Steps from a tracked event to the last event it may bring about. */
export const DEPTH_MAX = 5;
/** Events that one tracked event may bring about. */
export const DERIVED_MAX = 100;

/** Whether what comes next would be one event too many; what is left is then cut. */
export const isGuarded = ({ root }: Turn): boolean => {
  const next = root.derived[root.taken]!;
  if (next.depth <= DEPTH_MAX && root.taken < DERIVED_MAX) return false;
  root.guarded.push(...new Set(root.derived.slice(root.taken).map(({ type }) => type)));
  return true;
};
