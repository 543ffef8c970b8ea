import type { EventContext } from "../rule-event.ts";
import type { CompiledStreak } from "./compile.ts";
import { earn } from "./extend.ts";
import { firstDate, periodAt } from "./periods.ts";
import { sufficesAlone } from "./progress.ts";
import { breakRun } from "./settle.ts";
import { NO_STEPS, type Run, type Settled, type Step, type Streak } from "./state.ts";

/**
 * Counts consecutive events until one that breaks. A late event, from before the last break, changes nothing;
 * nor does a break from before the last event that counted.
 */
export const consecutive = (streak: CompiledStreak, before: Streak, context: EventContext): Settled => {
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
    : { first: period, last: period, frozen: [], name: `${firstDate(calendar.unit, period)}.${runs}` };
  const current = before.current + 1;
  const longest = Math.max(before.longest, current);
  const steps: Step[] = [
    { kind: "EXTENDED", period, current, longest, deadlineMs: null },
    { kind: "REACHED", name: run.name, from: current, to: current },
  ];
  const state: Streak = {
    current,
    longest,
    freezes: earn(streak, before.freezes, current),
    deadlineMs: null,
    doc: { ...doc, run, lastMs: Math.max(doc.lastMs ?? atMs, atMs), ...(runs === undefined ? {} : { runs }) },
  };
  return { state, steps };
};
