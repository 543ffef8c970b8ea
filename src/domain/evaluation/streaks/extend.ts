import type { CompiledStreak } from "./compile.ts";
import { deadlineAfter, firstDate } from "./periods.ts";
import type { Run, Settled, Step, Streak } from "./state.ts";

/** Returns the freezes after the run's length has earned one more, if it has. */
export const earn = ({ definition: { freeze } }: CompiledStreak, freezes: number, length: number): number => {
  const every = freeze?.enabled ? freeze.autoEarnEvery : undefined;
  return every !== undefined && length % every === 0
    ? Math.max(freezes, Math.min(freeze!.max, freezes + 1))
    : freezes;
};

/** Extends the current run by a period, or starts a new one. A freeze used for that period is returned. */
export const extend = (
  streak: CompiledStreak,
  state: Streak,
  { period, atMs }: { period: number; atMs: number },
): Settled => {
  const { calendar, definition } = streak;
  const { doc } = state;
  const isKept = doc.run?.frozen.includes(period) === true;
  const run: Run = doc.run
    ? {
        ...doc.run,
        last: period,
        frozen: isKept ? doc.run.frozen.filter((one) => one !== period) : doc.run.frozen,
      }
    : { first: period, last: period, frozen: [], name: firstDate(calendar.unit, period) };
  const current = state.current + 1;
  const longest = Math.max(state.longest, current);
  const ownDeadlineMs = deadlineAfter(calendar, doc.zone!, period);
  const deadlineMs = doc.run ? Math.max(state.deadlineMs ?? ownDeadlineMs, ownDeadlineMs) : ownDeadlineMs;
  const held = isKept ? Math.min(definition.freeze?.max ?? 0, state.freezes + 1) : state.freezes;
  const steps: Step[] = [
    { kind: "EXTENDED", period, current, longest, deadlineMs },
    { kind: "REACHED", name: run.name, from: current, to: current },
  ];
  const lastMs = Math.max(doc.lastMs ?? atMs, atMs);
  const next: Streak = {
    current,
    longest,
    freezes: earn(streak, held, current),
    deadlineMs,
    doc: { ...doc, run, lastMs },
  };
  return { state: next, steps };
};
