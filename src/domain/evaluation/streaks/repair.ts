import type { CompiledStreak } from "./compile.ts";
import { deadlineAfter, periodAt } from "./periods.ts";
import { type LostRun, type Settled, type Step, type Streak, without } from "./state.ts";

const HOUR_MS = 3_600_000;

/** Returns until when a lost run can be repaired, in ms; undefined for never. */
export const repairableUntil = (
  { definition }: CompiledStreak,
  { brokenMs }: Pick<LostRun, "brokenMs">,
): number | undefined =>
  definition.repairWindowHours > 0 ? brokenMs + definition.repairWindowHours * HOUR_MS : undefined;

/** Returns the run that can be repaired at a moment; undefined when there is none. */
export const repairable = (streak: CompiledStreak, { doc }: Streak, atMs: number): LostRun | undefined => {
  const until = doc.lost && repairableUntil(streak, doc.lost);
  return until !== undefined && atMs < until ? doc.lost : undefined;
};

/** Returns the periods between a lost run and the current run, or else the current period. */
export const missedPeriods = (
  { calendar, definition }: CompiledStreak,
  { doc }: Streak,
  { lost, atMs }: { lost: LostRun; atMs: number },
): number[] => {
  if (definition.mode === "CONSECUTIVE") return [];
  const covered = Math.max(lost.last, lost.frozen.at(-1) ?? lost.last);
  const until = doc.run?.first ?? periodAt(calendar, doc.zone!, atMs);
  return Array.from({ length: Math.max(0, until - covered - 1) }, (_, i) => covered + 1 + i);
};

/**
 * Restores a lost run and joins it with the current one. Periods in between count as frozen; without a
 * current run the player has until the end of the current period.
 */
export const repair = (
  streak: CompiledStreak,
  state: Streak,
  { lost, atMs, by }: { lost: LostRun; atMs: number; by: "PURCHASE" | "ADMIN" },
): Settled => {
  const { doc } = state;
  const bridged = missedPeriods(streak, state, { lost, atMs });
  const run = {
    first: lost.first,
    last: doc.run?.last ?? lost.last,
    frozen: [...lost.frozen, ...bridged, ...(doc.run?.frozen ?? [])],
    name: lost.name,
  };
  const current = lost.length + state.current;
  const covered = Math.max(run.last, run.frozen.at(-1) ?? run.last);
  const ownDeadlineMs = () =>
    lost.deadlineMs === null ? null : deadlineAfter(streak.calendar, doc.zone!, covered);
  const steps: Step[] = [{ kind: "REPAIRED", current, by }];
  if (doc.run) steps.push({ kind: "REACHED", name: run.name, from: lost.length + 1, to: current });
  const repaired: Streak = {
    ...state,
    current,
    longest: Math.max(state.longest, current),
    deadlineMs: doc.run ? state.deadlineMs : ownDeadlineMs(),
    doc: { ...without(doc, "lost"), run },
  };
  return { state: repaired, steps };
};

/** Ends the current run and removes what could be repaired. Longest and freezes are kept. */
export const reset = (streak: CompiledStreak, state: Streak, atMs: number): Settled => {
  const { doc, current } = state;
  const steps: Step[] = [];
  if (doc.lost) steps.push({ kind: "ARCHIVED", run: doc.lost, by: doc.lost.by });
  if (doc.run) steps.push({ kind: "ARCHIVED", run: { ...doc.run, length: current }, by: "RESET" });
  const { run: _run, lost: _lost, progress: _progress, ...kept } = doc;
  const floor =
    streak.definition.mode === "CONSECUTIVE" ? atMs : periodAt(streak.calendar, doc.zone ?? "UTC", atMs);
  return { state: { ...state, current: 0, deadlineMs: null, doc: { ...kept, floor } }, steps };
};
