import { WINDOWS_KEPT } from "./rolling.ts";

type Counted = readonly [window: number, firings: number];

/** The state kept by limits.ts. */
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
 * Merges what counted towards a rule's limits for two merged players: the firings of both, so that a merge
 * never lets a rule fire more often than for one player.
 */
export const mergeLimits = (mine: unknown, theirs: unknown): unknown => {
  if (mine === undefined || theirs === undefined) return mine ?? theirs;
  const [a, b] = [mine as Kept, theirs as Kept];
  return { ...b, ...a, ...mergeCounts(a, b), ...mergeTimes(a, b) };
};

const mergeCounts = (a: Kept, b: Kept): Kept => {
  const merged: Kept = {};
  if (a.n !== undefined && b.n !== undefined) merged.n = a.n + b.n;
  for (const name of WINDOWS) {
    const [mine, theirs] = [a[name], b[name]];
    if (mine && theirs) merged[name] = addWindows(mine, theirs);
  }
  return merged;
};

const mergeTimes = (a: Kept, b: Kept): Kept => ({
  ...(a.t && b.t ? { t: [...a.t, ...b.t].toSorted((x, y) => x - y) } : {}),
  ...(a.f !== undefined && b.f !== undefined ? { f: Math.max(a.f, b.f) } : {}),
});
