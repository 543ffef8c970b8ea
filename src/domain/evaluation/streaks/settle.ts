import {
  type CompiledStreak,
  type LostRun,
  NO_STEPS,
  type Run,
  type Settled,
  type Step,
  type Streak,
  type StreakDoc,
  without,
} from "./compile.ts";
import { deadlineAfter, periodAt, periodsBetween } from "./periods.ts";

const DAY_MS = 86_400_000;

/** Returns whether a missed period uses a freeze automatically. */
const usesFreeze = ({ definition: { freeze } }: CompiledStreak, { freezes }: Streak): boolean =>
  freeze?.enabled === true && freeze.autoUse && freezes > 0;

/** Returns the last period that a run has completed or that is kept of it. */
export const coveredOf = ({ last, frozen }: Run): number => Math.max(last, frozen.at(-1) ?? last);

const paidOf = ({ paid, frozen }: Run): readonly number[] => paid ?? frozen;

/** Returns a run with further kept periods: `free` ones, such as days off, and `paid` ones, which used a freeze. */
export const keeping = <R extends Run>(run: R, free: readonly number[], paid: readonly number[] = []): R => ({
  ...run,
  frozen: [...run.frozen, ...free, ...paid].toSorted((a, b) => a - b),
  ...(run.paid || free.length > 0 ? { paid: [...paidOf(run), ...paid] } : {}),
});

/** Returns a run without a kept period. */
export const withoutKept = <R extends Run>(run: R, period: number): R => {
  const others = (periods: readonly number[]) => periods.filter((one) => one !== period);
  return { ...run, frozen: others(run.frozen), ...(run.paid ? { paid: others(run.paid) } : {}) };
};

/** Returns two runs as one. */
export const joinRuns = (earlier: Run, later: Run): Run => ({
  first: earlier.first,
  last: later.last,
  frozen: [...earlier.frozen, ...later.frozen],
  ...(earlier.paid || later.paid ? { paid: [...paidOf(earlier), ...paidOf(later)] } : {}),
  name: earlier.name,
});

const freezeOne = (streak: CompiledStreak, state: Streak, run: Run): Settled => {
  const zone = state.doc.zone!;
  const period = periodAt(streak.calendar, zone, state.deadlineMs! - 1);
  const freezes = state.freezes - 1;
  const next: Streak = {
    ...state,
    freezes,
    deadlineMs: deadlineAfter(streak.calendar, zone, period),
    // Days off before it are kept with it.
    doc: { ...state.doc, run: keeping(run, periodsBetween(coveredOf(run), period), [period]) },
  };
  const step: Step = { kind: "FROZEN", period, current: state.current, freezesLeft: freezes };
  return { state: next, steps: [step] };
};

/** Maximum number of completed periods before the last two runs that are remembered. */
export const EARLY_MAX = 31;

/** A run that is archived may be joined by late events all the same. */
const earlierWith = ({ early = [] }: StreakDoc, { first, last, frozen, deadlineMs }: LostRun): number[] => {
  if (deadlineMs === null) return [...early];
  const from = Math.max(first, last - EARLY_MAX);
  const done = Array.from({ length: last - from + 1 }, (_, i) => from + i).filter(
    (one) => !frozen.includes(one),
  );
  return [...new Set([...early, ...done])].toSorted((a, b) => a - b).slice(-EARLY_MAX);
};

/** Ends the current run; one that was lost before it can no longer be restored. */
export const breakRun = (
  state: Streak,
  run: Run,
  { brokenMs, by }: Pick<LostRun, "brokenMs" | "by">,
): Settled => {
  const { deadlineMs, current: length } = state;
  const doc = state.doc.lost ? { ...state.doc, early: earlierWith(state.doc, state.doc.lost) } : state.doc;
  const lost: LostRun = { ...run, length, deadlineMs, brokenMs, by };
  const steps: Step[] = doc.lost ? [{ kind: "ARCHIVED", run: doc.lost, by: doc.lost.by }] : [];
  steps.push({ kind: "BROKEN", lost });
  return { state: { ...state, current: 0, deadlineMs: null, doc: { ...without(doc, "run"), lost } }, steps };
};

/**
 * Settles a streak at a moment: each period missed by then uses a freeze, or ends the run. Settling at
 * intermediate moments does not change the outcome, so it is done on demand.
 */
export const settle = (streak: CompiledStreak, before: Streak, atMs: number): Settled => {
  let state = before;
  let steps = NO_STEPS;
  for (;;) {
    const { run } = state.doc;
    if (!run || state.deadlineMs === null) break;
    const brokenMs = state.deadlineMs + streak.graceMs;
    if (atMs < brokenMs) break;
    const settled = usesFreeze(streak, state)
      ? freezeOne(streak, state, run)
      : breakRun(state, run, { brokenMs, by: "MISSED" });
    state = settled.state;
    steps = [...steps, ...settled.steps];
  }
  return { state, steps };
};

/** Restores the lost run as the current one. */
export const restoreRun = (state: Streak, lost: LostRun): Streak => {
  const { length, deadlineMs, brokenMs: _brokenMs, by: _by, ...run } = lost;
  return { ...state, current: length, deadlineMs, doc: { ...without(state.doc, "lost"), run } };
};

/**
 * Reverts what was settled beyond a moment, for a late event: a run that was lost after it is restored, and
 * freezes that were used after it are returned.
 */
export const rewind = (streak: CompiledStreak, before: Streak, atMs: number): Settled => {
  let state = before;
  let steps = NO_STEPS;
  const { lost } = state.doc;
  if (state.current === 0 && lost && isInTime(streak, lost, atMs)) {
    state = restoreRun(state, lost);
    steps = [{ kind: "REPAIRED", current: lost.length, by: "LATE_EVENT" }];
  }
  return { state: returnFreezes(streak, state, atMs), steps };
};

/** Returns whether a moment is before a lost run broke. */
export const isInTime = ({ graceMs }: CompiledStreak, { deadlineMs }: LostRun, atMs: number): boolean =>
  deadlineMs !== null && atMs < deadlineMs + graceMs;

/** Returns the freezes after the one that a kept period of a run has used is given back, if it has used one. */
export const withReturned = (
  { definition }: CompiledStreak,
  { freezes }: Streak,
  { run, period }: { run: Run; period: number },
): number => (paidOf(run).includes(period) ? Math.min(definition.freeze?.max ?? 0, freezes + 1) : freezes);

/** Returns freezes of periods that were not over at a moment. */
export const returnFreezes = (streak: CompiledStreak, before: Streak, atMs: number): Streak => {
  const { calendar, graceMs } = streak;
  let state = before;
  for (;;) {
    const { run, zone } = state.doc;
    const period = run?.frozen.at(-1);
    if (!run || period === undefined || period <= run.last) return state;
    const endMs = deadlineAfter(calendar, zone!, period - 1);
    if (atMs >= endMs + graceMs) return state;
    state = {
      ...state,
      freezes: withReturned(streak, state, { run, period }),
      deadlineMs: endMs,
      doc: { ...state.doc, run: withoutKept(run, period) },
    };
  }
};

/** The time zone for a streak, and when it became the player's; null where that is not known. */
export type ZoneChange = { zone: string; changedMs: number | null };

/**
 * Adopts another zone, at most once in 24 hours: a later change takes effect when these are over. Neither
 * direction shortens the player's remaining time.
 */
export const adoptZone = (
  streak: CompiledStreak,
  before: Streak,
  { zone, changedMs }: ZoneChange,
  atMs: number,
): Settled => {
  const { doc } = before;
  if (doc.zone === zone) return { state: before, steps: NO_STEPS };
  if (doc.zone === undefined) return { state: { ...before, doc: { ...doc, zone } }, steps: NO_STEPS };
  const earliestMs = doc.zoneMs === undefined ? -Infinity : doc.zoneMs + DAY_MS;
  const zoneMs = Math.max(changedMs ?? doc.lastMs ?? atMs, earliestMs);
  if (zoneMs > atMs) return { state: before, steps: NO_STEPS };
  const { state, steps } = settle(streak, before, zoneMs);
  const { run } = state.doc;
  const adopted: Streak = { ...state, doc: { ...state.doc, zone, zoneMs } };
  if (!run || state.deadlineMs === null) return { state: adopted, steps };
  const deadlineMs = Math.max(state.deadlineMs, deadlineAfter(streak.calendar, zone, coveredOf(run)));
  return { state: { ...adopted, deadlineMs }, steps };
};
