import type { CompiledStreak } from "../../evaluation/streaks/compile.ts";
import { isAtRisk } from "./due.ts";
import { repairable, repairableUntil } from "../../evaluation/streaks/repair.ts";
import { firstDate, periodAt, periodName } from "../../evaluation/streaks/periods.ts";
import { statesOf } from "../../evaluation/streaks/progress.ts";
import type { Run, Streak } from "../../evaluation/streaks/state.ts";

/** Maximum number of frozen periods shown, the newest. */
const FROZEN_SHOWN = 100;

export const STREAK_STATUSES = ["NONE", "ACTIVE", "AT_RISK", "BROKEN"] as const;

/** A player's streak as the API shows it. Times are ISO 8601. */
export type PlayerStreak = {
  streakKey: string;
  name: string;
  current: number;
  longest: number;
  status: (typeof STREAK_STATUSES)[number];
  doneThisPeriod: boolean;
  /** Progress of each part of the qualification; empty for CONSECUTIVE. */
  periodProgress: { value: number; target: number }[];
  deadlineAt: string | null;
  freezes: number;
  maxFreezes: number;
  startedOn: string | null;
  lastPeriod: string | null;
  frozenPeriods: string[];
  repairableUntil: string | null;
  lostLength: number | null;
};

const isoOf = (ms: number | null | undefined): string | null =>
  ms == null ? null : new Date(ms).toISOString();

/**
 * Returns the API form of a streak that was settled at `nowMs`; `zone` is the player's, for one that has not
 * begun.
 */
export const showStreak = (
  streak: CompiledStreak,
  state: Streak,
  { nowMs, zone }: { nowMs: number; zone: string },
): PlayerStreak => {
  const { key, name, mode, freeze } = streak.definition;
  const period = periodAt(streak.calendar, state.doc.zone ?? zone, nowMs);
  const isPeriodic = mode === "PERIODIC";
  return {
    streakKey: key,
    name,
    current: state.current,
    longest: state.longest,
    status: statusOf(streak, state, nowMs),
    doneThisPeriod: isPeriodic && (state.doc.run?.last ?? -Infinity) >= period,
    periodProgress: isPeriodic ? progressOf(streak, state, period) : [],
    deadlineAt: isoOf(state.deadlineMs),
    freezes: state.freezes,
    maxFreezes: freeze?.enabled ? freeze.max : 0,
    ...showRun(streak, state.doc.run),
    ...showLost(streak, state, nowMs),
  };
};

const showRun = ({ definition: { period } }: CompiledStreak, run: Run | undefined) => ({
  startedOn: run ? firstDate(period, run.first) : null,
  lastPeriod: run ? periodName(period, run.last) : null,
  frozenPeriods: (run?.frozen ?? []).slice(-FROZEN_SHOWN).map((one) => periodName(period, one)),
});

/** Returns a lost run, as long as it can be repaired or no new one has begun. */
const showLost = (streak: CompiledStreak, state: Streak, nowMs: number) => {
  const mendable = repairable(streak, state, nowMs);
  const lost = mendable ?? (state.doc.run ? undefined : state.doc.lost);
  return {
    repairableUntil: isoOf(mendable && repairableUntil(streak, mendable)),
    lostLength: lost?.length ?? null,
  };
};

const statusOf = (streak: CompiledStreak, state: Streak, nowMs: number): PlayerStreak["status"] => {
  if (state.current > 0) return isAtRisk(streak, state, nowMs) ? "AT_RISK" : "ACTIVE";
  return state.doc.lost ? "BROKEN" : "NONE";
};

const progressOf = (streak: CompiledStreak, { doc }: Streak, period: number) => {
  const states = statesOf(streak, doc.progress, period);
  return streak.parts.map((part, i) => ({ value: part.valueOf(states[i] ?? null), target: part.threshold }));
};
