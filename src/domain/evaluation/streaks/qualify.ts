import type { EventContext } from "../rule-event.ts";
import {
  type CompiledStreak,
  gather,
  isEnough,
  type LostRun,
  NO_STEPS,
  type Run,
  type Settled,
  statesOf,
  type Step,
  type Streak,
  sufficesAlone,
  without,
} from "./compile.ts";
import { deadlineAfter, firstDate, isNext, periodAt, periodsBetween, periodStart } from "./periods.ts";
import {
  adoptZone,
  breakRun,
  coveredOf,
  EARLY_MAX,
  joinRuns,
  keeping,
  restoreRun,
  returnFreezes,
  rewind,
  settle,
  withoutKept,
  withReturned,
  type ZoneChange,
} from "./settle.ts";

/** Returns the freezes after the run's length has earned one more, if it has. */
const earn = ({ definition: { freeze } }: CompiledStreak, freezes: number, length: number): number => {
  const every = freeze?.enabled ? freeze.autoEarnEvery : undefined;
  return every !== undefined && length % every === 0
    ? Math.max(freezes, Math.min(freeze!.max, freezes + 1))
    : freezes;
};

/** A run that has completed a period: what its deadline left out before that, such as days off, is kept. */
const completing = (run: Run, period: number): Run => ({
  ...withoutKept(keeping(run, periodsBetween(coveredOf(run), period)), period),
  last: period,
});

/** Extends the current run by a period, or starts a new one. A freeze used for that period is returned. */
const extend = (
  streak: CompiledStreak,
  state: Streak,
  { period, atMs }: { period: number; atMs: number },
): Settled => {
  const { calendar } = streak;
  const { doc } = state;
  const run: Run = doc.run
    ? completing(doc.run, period)
    : { first: period, last: period, frozen: [], name: firstDate(calendar, period) };
  const ownDeadlineMs = deadlineAfter(calendar, doc.zone!, period);
  const deadlineMs = doc.run ? Math.max(state.deadlineMs ?? ownDeadlineMs, ownDeadlineMs) : ownDeadlineMs;
  const freezes = doc.run ? withReturned(streak, state, { run: doc.run, period }) : state.freezes;
  const lastMs = Math.max(doc.lastMs ?? atMs, atMs);
  return grow(
    streak,
    { ...state, freezes, deadlineMs, doc: { ...doc, run, lastMs } },
    { run, period, by: 1 },
  );
};

/**
 * Counts consecutive events until one that breaks. A late event, from before the last break, changes nothing;
 * nor does a break from before the last event that counted.
 */
const consecutive = (streak: CompiledStreak, before: Streak, context: EventContext): Settled => {
  const { event } = context;
  const { floor = -Infinity } = before.doc;
  if (event.at < floor) return { state: before, steps: NO_STEPS };
  if (streak.impactOf(event.type).mayBreak && streak.breaks(context)) return end(streak, before, event.at);
  return sufficesAlone(streak, context)
    ? lengthen(streak, before, event.at)
    : { state: before, steps: NO_STEPS };
};

const end = (streak: CompiledStreak, before: Streak, atMs: number): Settled => {
  const { doc } = before;
  const { run } = doc;
  if (doc.lastMs !== undefined && atMs < doc.lastMs) return { state: before, steps: NO_STEPS };
  const freeze = streak.definition.freeze;
  if (run && freeze?.enabled && freeze.autoUse && before.freezes > 0) {
    const period = periodAt(streak.calendar, doc.zone!, atMs);
    const freezes = before.freezes - 1;
    const kept = { ...doc, run: { ...run, frozen: [...run.frozen, period] } };
    const step: Step = { kind: "FROZEN", period, current: before.current, freezesLeft: freezes };
    return { state: { ...before, freezes, doc: kept }, steps: [step] };
  }
  const broken = run
    ? breakRun(before, run, { brokenMs: atMs, by: "BREAK_EVENT" })
    : { state: before, steps: NO_STEPS };
  return { state: { ...broken.state, doc: { ...broken.state.doc, floor: atMs } }, steps: broken.steps };
};

const lengthen = (streak: CompiledStreak, before: Streak, atMs: number): Settled => {
  const { calendar } = streak;
  const { doc } = before;
  const period = periodAt(calendar, doc.zone!, atMs);
  const runs = doc.run ? doc.runs : (doc.runs ?? 0) + 1;
  const run: Run = doc.run
    ? { ...doc.run, last: Math.max(period, doc.run.last) }
    : { first: period, last: period, frozen: [], name: `${firstDate(calendar, period)}.${runs}` };
  const lastMs = Math.max(doc.lastMs ?? atMs, atMs);
  const counted = { ...doc, run, lastMs, ...(runs === undefined ? {} : { runs }) };
  return grow(streak, { ...before, deadlineMs: null, doc: counted }, { run, period, by: 1 });
};

type Late = { run: Run; period: number };

/** Completes a period that was kept: a freeze that it used is returned. */
const fillFrozen = (streak: CompiledStreak, state: Streak, { run, period }: Late): Settled => {
  const filled = withoutKept(run, period);
  const freezes = withReturned(streak, state, { run, period });
  const held = { ...state, freezes, doc: { ...state.doc, run: filled } };
  return grow(streak, held, { run: filled, period, by: 1 });
};

/**
 * Adds a period that was completed before the current run, and those before it that waited for it. A gap uses
 * freezes as it would have done; where it stays, the period is remembered, and counts for the longest run.
 * @returns undefined where the period has counted before
 */
const addEarlier = (streak: CompiledStreak, state: Streak, late: Late): Settled | undefined => {
  const { lost, early = [] } = state.doc;
  const isOfLost = lost !== undefined && late.period <= lost.last;
  if (early.includes(late.period)) return undefined;
  if (isOfLost && lost.first <= late.period) return fillLost(streak, state, { lost, period: late.period });
  const known = [...early, late.period].toSorted((a, b) => a - b);
  return isOfLost ? addToLost(streak, state, { lost, known }) : addToRun(streak, state, { ...late, known });
};

const addToRun = (
  streak: CompiledStreak,
  state: Streak,
  { run, period, known }: Late & { known: readonly number[] },
): Settled => {
  const after = state.doc.lost?.last ?? -Infinity;
  const waiting = known.filter((one) => one < run.first && one > after);
  const { reached, kept } = reachBack(streak, state, { run, waiting });
  const missed = kept.filter((one) => !streak.calendar.isOff(one));
  const left = known.filter((one) => !reached.includes(one));
  const free = kept.filter((one) => !missed.includes(one));
  const joined = { ...keeping(run, free, missed), first: reached.at(-1) ?? run.first };
  const next: Streak = {
    ...state,
    freezes: state.freezes - missed.length,
    longest: Math.max(state.longest, longestOf(streak, left)),
    doc: { ...state.doc, run: joined, ...earlyOf(left) },
  };
  if (reached.length === 0) return { state: next, steps: [] };
  const steps = missed.map((one, i): Step => {
    const freezesLeft = state.freezes - i - 1;
    return { kind: "FROZEN", period: one, current: state.current, freezesLeft };
  });
  const longer = grow(streak, next, { run: joined, period, by: reached.length });
  return { state: longer.state, steps: [...steps, ...longer.steps] };
};

/**
 * The waiting periods that a run reaches backwards, latest first, and those that freezes, or days off, keep on
 * the way.
 */
const reachBack = (
  { calendar, definition: { freeze } }: CompiledStreak,
  { freezes }: Streak,
  { run, waiting }: { run: Run; waiting: readonly number[] },
): { reached: number[]; kept: number[] } => {
  let room = freeze?.enabled === true && freeze.autoUse ? freezes : 0;
  const [reached, kept]: [number[], number[]] = [[], []];
  let { first } = run;
  for (const next of waiting.toReversed()) {
    const between: number[] = [];
    for (let period = first - 1; period > next && room >= 0; period--) {
      if (!calendar.isOff(period)) room--;
      between.push(period);
    }
    if (room < 0) break;
    kept.push(...between);
    reached.push(next);
    first = next;
  }
  return { reached, kept };
};

const earlyOf = (early: readonly number[]): { early: readonly number[] } => ({
  early: early.slice(-EARLY_MAX),
});

/** Completes a period that was kept in the run before. */
const fillLost = (
  streak: CompiledStreak,
  state: Streak,
  { lost, period }: { lost: LostRun; period: number },
): Settled | undefined => {
  if (!lost.frozen.includes(period)) return undefined;
  const length = lost.length + 1;
  const filled = { ...withoutKept(lost, period), length };
  const freezes = withReturned(streak, state, { run: lost, period });
  const longest = Math.max(state.longest, length);
  return { state: { ...state, freezes, longest, doc: { ...state.doc, lost: filled } }, steps: [] };
};

const addToLost = (
  streak: CompiledStreak,
  state: Streak,
  { lost, known }: { lost: LostRun; known: readonly number[] },
): Settled => {
  let longer = lost;
  const early: number[] = [];
  for (const period of known.toReversed()) {
    if (period > longer.first || !isNext(streak.calendar, period, longer.first)) {
      early.unshift(period);
      continue;
    }
    const kept = keeping(longer, periodsBetween(period, longer.first));
    longer = { ...kept, first: period, length: longer.length + 1 };
  }
  const longest = Math.max(state.longest, longer.length, longestOf(streak, early));
  return {
    state: { ...state, longest, doc: { ...state.doc, lost: longer, ...earlyOf(early) } },
    steps: [],
  };
};

/** The longest row of neighbours. */
const longestOf = ({ calendar }: CompiledStreak, ascending: readonly number[]): number => {
  let [longest, length] = [0, 0];
  ascending.forEach((one, i) => {
    length = i > 0 && isNext(calendar, ascending[i - 1]!, one) ? length + 1 : 1;
    longest = Math.max(longest, length);
  });
  return longest;
};

/** Makes the current run, which has got further periods or events, longer by these. */
const grow = (streak: CompiledStreak, state: Streak, { run, period, by }: Late & { by: number }): Settled => {
  const current = state.current + by;
  const longest = Math.max(state.longest, current);
  let { freezes } = state;
  for (let length = state.current + 1; length <= current; length++) freezes = earn(streak, freezes, length);
  const steps: Step[] = [
    { kind: "EXTENDED", period, current, longest, deadlineMs: state.deadlineMs },
    // Under the name that the run has: what its length has given before is not given again.
    { kind: "REACHED", name: run.name, from: state.current + 1, to: current },
  ];
  return { state: { ...state, current, longest, freezes }, steps };
};

/** Minimum time between two counted periods after a change of zone. */
const ZONE_REST_MS = 28_800_000;

/** An event that a streak listens to, and the zone that the player is in. */
type Hit = { context: EventContext; zone: ZoneChange };

/**
 * Applies an event to a streak. A late event counts in the period of its own time, whatever came before it: it
 * restores a run that was lost after it, returns freezes that were used after it or for it, lengthens the
 * current run and the one before it at either end, and joins the two where nothing is missing between them any
 * more. Runs before these two stay as they were.
 * @returns the previous state when the event does not count
 */
export const qualify = (streak: CompiledStreak, before: Streak, { context, zone }: Hit): Settled => {
  const adopted = adoptZone(streak, before, zone, context.event.at);
  const { mode } = streak.definition;
  const counted = mode === "PERIODIC" ? periodic : consecutive;
  const { state, steps } = counted(streak, adopted.state, context);
  // The very first zone alone is not stored: the event has not begun anything.
  if (state === adopted.state && before.doc.zone === undefined) return { state: before, steps: NO_STEPS };
  return { state, steps: [...adopted.steps, ...steps] };
};

const periodic = (streak: CompiledStreak, before: Streak, context: EventContext): Settled => {
  const { event } = context;
  const rewound = rewind(streak, before, event.at);
  const { state, steps } = settle(streak, rewound.state, event.at);
  const period = periodOf(streak, state, event.at);
  // Most events: their period is complete, and nothing is written.
  if (isDone(state, period)) return { state: before, steps: NO_STEPS };
  const gathered = gather(streak, before.doc.progress, { period, context });
  if (!gathered) return { state: before, steps: NO_STEPS };
  const { progress } = gathered;
  const withProgress = (one: Streak): Streak => ({ ...one, doc: { ...one.doc, progress } });
  const counted = gathered.isEnough ? count(streak, state, { period, atMs: event.at }) : undefined;
  if (counted)
    return { state: withProgress(counted.state), steps: [...rewound.steps, ...steps, ...counted.steps] };
  // The late event did not count, so its reversal of later changes is dropped.
  const settled = settle(streak, before, event.at);
  return { state: withProgress(settled.state), steps: settled.steps };
};

/** Completes the current period of a settled streak, if its progress suffices without a further event. */
export const completeNow = (streak: CompiledStreak, state: Streak, atMs: number): Settled => {
  const { zone, progress } = state.doc;
  const unchanged = { state, steps: NO_STEPS };
  if (streak.definition.mode !== "PERIODIC" || zone === undefined) return unchanged;
  const period = periodOf(streak, state, atMs);
  if (isDone(state, period) || !isEnough(streak, statesOf(streak, progress, period))) return unchanged;
  return count(streak, state, { period, atMs }) ?? unchanged;
};

const isDone = ({ doc: { run } }: Streak, period: number): boolean =>
  run !== undefined && run.first <= period && period <= run.last && !run.frozen.includes(period);

/** Returns the period that an event counts for: within the grace time, the one that has just ended. */
const periodOf = ({ calendar }: CompiledStreak, { deadlineMs, doc }: Streak, atMs: number): number =>
  periodAt(calendar, doc.zone!, deadlineMs !== null && atMs >= deadlineMs ? deadlineMs - 1 : atMs);

type Done = { period: number; atMs: number };

/** Adds the periods between a run and the next one that have waited for it, as far as it reaches. */
const withWaiting = (
  streak: CompiledStreak,
  before: Streak,
  { done, run }: { done: Done; run: Run },
): Streak => {
  const { early = [], zone } = before.doc;
  let state = before;
  for (const period of early) {
    if (period <= state.doc.run!.last || period >= run.first) continue;
    const reached = settle(streak, state, periodStart(streak.calendar, zone!, period) + streak.graceMs).state;
    if (!reached.doc.run) return state;
    state = extend(streak, reached, { ...done, period }).state;
  }
  return state;
};

/** Returns the streak with a completed period; undefined when that changes nothing. */
const count = (streak: CompiledStreak, state: Streak, done: Done): Settled | undefined => {
  const { run, floor = -Infinity } = state.doc;
  const { period } = done;
  if (period < floor || isResting(state, done.atMs)) return undefined;
  if (run && period < run.first)
    return joinLost(streak, state, { done, run }) ?? addEarlier(streak, state, { run, period });
  if (run && period <= run.last) return fillFrozen(streak, state, { run, period });
  return period > lastOf(state) ? extend(streak, state, done) : undefined;
};

const lastOf = ({ doc: { run, lost } }: Streak): number => (run ?? lost)?.last ?? -Infinity;

const isResting = ({ doc: { zoneMs, lastMs } }: Streak, atMs: number): boolean =>
  zoneMs !== undefined && lastMs !== undefined && zoneMs > lastMs && atMs - lastMs < ZONE_REST_MS;

/** Adds a period to the run before the current one, and joins the two when that closes the gap. */
const joinLost = (
  streak: CompiledStreak,
  state: Streak,
  { done, run }: { done: Done; run: Run },
): Settled | undefined => {
  const { lost } = state.doc;
  if (!lost || done.period <= lost.last) return undefined;
  const past = returnFreezes(streak, restoreRun(state, lost), done.atMs);
  if (past.deadlineMs === null || done.atMs >= past.deadlineMs) return undefined;
  const longer = withWaiting(streak, extend(streak, past, done).state, { done, run });
  const reached = settle(
    streak,
    longer,
    periodStart(streak.calendar, state.doc.zone!, run.first) + streak.graceMs,
  );
  const earlier = reached.state.doc.run;
  const common = { ...reached.state, deadlineMs: state.deadlineMs };
  if (!earlier) {
    const steps: Step[] = [{ kind: "REACHED", name: lost.name, from: longer.current, to: longer.current }];
    return { state: { ...common, current: state.current, doc: { ...reached.state.doc, run } }, steps };
  }
  const current = reached.state.current + state.current;
  const longest = Math.max(longer.longest, current);
  const joined = joinRuns(keeping(earlier, periodsBetween(coveredOf(earlier), run.first)), run);
  const steps: Step[] = [
    { kind: "REPAIRED", current, by: "LATE_EVENT" },
    { kind: "EXTENDED", period: done.period, current, longest, deadlineMs: state.deadlineMs },
    { kind: "REACHED", name: earlier.name, from: lost.length + 1, to: current },
  ];
  return {
    state: { ...common, current, longest, doc: { ...without(reached.state.doc, "lost"), run: joined } },
    steps,
  };
};
