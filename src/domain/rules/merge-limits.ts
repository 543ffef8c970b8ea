import { WINDOWS_KEPT } from "./rolling.ts";

type Counted = readonly [window: number, firings: number];

/** As limits.ts keeps it. */
type Kept = {
  n?: number;
  d?: readonly Counted[];
  w?: readonly Counted[];
  m?: readonly Counted[];
  t?: readonly number[];
  f?: number;
};

const WINDOWS = ["d", "w", "m"] as const;

const addWindows = (a: readonly Counted[], b: readonly Counted[]): Counted[] => {
  const sums = new Map(a.map(([window, firings]) => [window, firings]));
  for (const [window, firings] of b) sums.set(window, (sums.get(window) ?? 0) + firings);
  return [...sums].toSorted(([x], [y]) => x - y).slice(-WINDOWS_KEPT);
};

/**
 * What has counted towards a rule's limits for two players who become one: the firings of both, so that
 * joining two players never lets a rule fire more often than it may for one.
 */
export const mergeLimits = (mine: unknown, theirs: unknown): unknown => {
  if (mine === undefined || theirs === undefined) return mine ?? theirs;
  const [a, b] = [mine as Kept, theirs as Kept];
  const merged: Kept = { ...b, ...a };
  if (a.n !== undefined || b.n !== undefined) merged.n = (a.n ?? 0) + (b.n ?? 0);
  for (const name of WINDOWS) {
    if (a[name] || b[name]) merged[name] = addWindows(a[name] ?? [], b[name] ?? []);
  }
  if (a.t || b.t) merged.t = [...(a.t ?? []), ...(b.t ?? [])].toSorted((x, y) => x - y);
  if (a.f !== undefined || b.f !== undefined) merged.f = Math.max(a.f ?? -Infinity, b.f ?? -Infinity);
  return merged;
};
