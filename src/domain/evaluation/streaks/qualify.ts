import type { EventContext } from "../rule-event.ts";
import type { CompiledStreak } from "./compile.ts";
import { consecutive } from "./consecutive.ts";
import { addEarlier, fillFrozen } from "./earlier.ts";
import { extend } from "./extend.ts";
import { periodAt, periodStart } from "./periods.ts";
import { gather } from "./progress.ts";
import { adoptZone, rewind, settle, restoreRun, returnFreezes, type ZoneChange } from "./settle.ts";
import { NO_STEPS, type Run, type Settled, type Step, type Streak, without } from "./state.ts";

/** Minimum time between two counted periods after a change of zone. */
const ZONE_REST_MS = 28_800_000;

/** An event that a streak listens to, and the zone that the player is in. */
export type Hit = { context: EventContext; zone: ZoneChange };

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
  const { progress, isEnough } = gathered;
  const withProgress = (one: Streak): Streak => ({ ...one, doc: { ...one.doc, progress } });
  const counted = isEnough ? count(streak, state, { period, atMs: event.at }) : undefined;
  if (counted)
    return { state: withProgress(counted.state), steps: [...rewound.steps, ...steps, ...counted.steps] };
  // The late event did not count, so its reversal of later changes is dropped.
  const settled = settle(streak, before, event.at);
  return { state: withProgress(settled.state), steps: settled.steps };
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
  const joined: Run = {
    first: earlier.first,
    last: run.last,
    frozen: [...earlier.frozen, ...run.frozen],
    name: earlier.name,
  };
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
