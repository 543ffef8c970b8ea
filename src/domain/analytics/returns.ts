import { countAtMost } from "./events.ts";
import { DAY_MS } from "./range.ts";
import type { Steps } from "../kernel/slices.ts";

/** Which part of the time after a start a column is about, in periods from that of the start; inclusive. */
export type Column = { from: number; until: number };

/** What a retention question asks of one player. */
export type ReturnTask = {
  /** Where the calendar's periods begin, in ms; undefined: periods are 24 h from each start on. */
  startsMs: readonly number[] | undefined;
  /** The number of the cohort of a start, in ms. */
  cohortOf: (ms: number) => number;
  /** Only the first start counts; otherwise the first one of each cohort. */
  isFirstOnly: boolean;
  /** Whoever starts has returned in the period of the start. */
  isStartReturn: boolean;
  columns: readonly Column[];
};

/** One player: starts within the range, and returns. Both by time, in ms. */
export type Visits = {
  starts: ArrayLike<number>;
  returns: ArrayLike<number>;
  /** By start: its place among the returns; -1: it is none. */
  places: ArrayLike<number>;
};

/** Returns whether a player came back in the time of a column after a start. */
const hasReturned = (
  { startsMs, isStartReturn }: ReturnTask,
  { starts, returns, places }: Visits,
  { start, cohort, from, until }: Column & { start: number; cohort: number },
): boolean => {
  if (from > until) return false;
  if (from === 0 && isStartReturn) return true;
  const startMs = starts[start]!;
  const beginMs = startsMs ? (startsMs[cohort + from] ?? Infinity) : startMs + from * DAY_MS;
  const endMs = startsMs ? (startsMs[cohort + until + 1] ?? Infinity) : startMs + (until + 1) * DAY_MS;
  let place = countAtMost(returns, Math.max(beginMs, startMs) - 1);
  // The event that starts is no return itself, but others of its time are.
  if (place === places[start]) place++;
  return place < returns.length && returns[place]! < endMs;
};

/** Whom a question has found: called for each start that counts, with the columns of a return. */
export type Found = (cohort: number, start: number, isReturned: (column: number) => boolean) => void;

/** Finds the starts of a player that count, and what followed each. */
export function* judgeReturns(visits: Visits, task: ReturnTask, found: Found): Steps<void> {
  let last = -1;
  for (let start = 0; start < visits.starts.length; start++) {
    const cohort = task.cohortOf(visits.starts[start]!);
    if (cohort === last) continue;
    last = cohort;
    found(cohort, start, (column) => hasReturned(task, visits, { start, cohort, ...task.columns[column]! }));
    if (task.isFirstOnly) return;
    yield;
  }
}
