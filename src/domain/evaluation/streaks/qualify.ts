import type { Heard } from "../rule-event.ts";
import type { CompiledStreak } from "./compile.ts";
import { consecutive } from "./consecutive.ts";
import { extend } from "./extend.ts";
import { periodAt, periodStart } from "./periods.ts";
import { gather } from "./progress.ts";
import { adoptZone, rewind, settle, takeUp, thaw, type ZoneChange } from "./settle.ts";
import { NO_STEPS, type Run, type Settled, type Step, type Streak, without } from "./state.ts";

/** After a change of zone, the next period counts no sooner than this after the last one that did. */
const ZONE_REST_MS = 28_800_000;

/** An event that a streak hears, and the zone that the player is in. */
export type Hit = { heard: Heard; zone: ZoneChange };

/**
 * A streak after an event. An event that comes late counts in the period of its own time: it takes up a run
 * that was lost after it, gives back freezes that were used after it, and joins a lost run with the one in
 * hand where nothing is missing between them any more. What is older is left out.
 * @returns the state that came in when the event does not count for it
 */
export const qualify = (streak: CompiledStreak, before: Streak, { heard, zone }: Hit): Settled => {
  const adopted = adoptZone(streak, before, zone, heard.event.at);
  const { mode } = streak.definition;
  const counted = mode === "PERIODIC" ? periodic : consecutive;
  const { state, steps } = counted(streak, adopted.state, heard);
  // Nothing is kept for the first zone of all: the event has not begun anything.
  if (state === adopted.state && before.doc.zone === undefined) return { state: before, steps: NO_STEPS };
  return { state, steps: [...adopted.steps, ...steps] };
};

const periodic = (streak: CompiledStreak, before: Streak, heard: Heard): Settled => {
  const { event } = heard;
  const rewound = rewind(streak, before, event.at);
  const { state, steps } = settle(streak, rewound.state, event.at);
  const period = periodOf(streak, state, event.at);
  // Most events: their period is done, and nothing is written.
  if (isDone(state, period)) return { state: before, steps: NO_STEPS };
  const gathered = gather(streak, before.doc.progress, { period, heard });
  if (!gathered) return { state: before, steps: NO_STEPS };
  const { progress, isEnough } = gathered;
  const withProgress = (one: Streak): Streak => ({ ...one, doc: { ...one.doc, progress } });
  const counted = isEnough ? count(streak, state, { period, atMs: event.at }) : undefined;
  if (counted)
    return { state: withProgress(counted.state), steps: [...rewound.steps, ...steps, ...counted.steps] };
  // What a late event would have taken back stands, since it did not count.
  const settled = settle(streak, before, event.at);
  return { state: withProgress(settled.state), steps: settled.steps };
};

const isDone = ({ doc: { run } }: Streak, period: number): boolean =>
  run !== undefined && run.first <= period && period <= run.last;

/** The period that an event counts for: in the time of grace, the one that has just ended. */
const periodOf = ({ calendar }: CompiledStreak, { deadlineMs, doc }: Streak, atMs: number): number =>
  periodAt(calendar, doc.zone!, deadlineMs !== null && atMs >= deadlineMs ? deadlineMs - 1 : atMs);

type Done = { period: number; atMs: number };

/** The streak with a period that is done; undefined when that changes nothing. */
const count = (streak: CompiledStreak, state: Streak, done: Done): Settled | undefined => {
  const { run, floor = -Infinity } = state.doc;
  const { period } = done;
  if (period < floor || isResting(state, done.atMs)) return undefined;
  if (run && period < run.first) return joinLost(streak, state, { done, run });
  return period > lastOf(state) ? extend(streak, state, done) : undefined;
};

const lastOf = ({ doc: { run, lost } }: Streak): number => (run ?? lost)?.last ?? -Infinity;

const isResting = ({ doc: { zoneMs, lastMs } }: Streak, atMs: number): boolean =>
  zoneMs !== undefined && lastMs !== undefined && zoneMs > lastMs && atMs - lastMs < ZONE_REST_MS;

/** Adds a period to the run before the one in hand, and makes one of both when that closes the gap. */
const joinLost = (
  streak: CompiledStreak,
  state: Streak,
  { done, run }: { done: Done; run: Run },
): Settled | undefined => {
  const { lost } = state.doc;
  if (!lost || done.period <= lost.last) return undefined;
  const past = thaw(streak, takeUp(state, lost), done.atMs);
  if (past.deadlineMs === null || done.atMs >= past.deadlineMs) return undefined;
  const longer = extend(streak, past, done).state;
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
