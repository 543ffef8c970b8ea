import type { AggregateState } from "../metrics/aggregates.ts";
import type { StreakState } from "../player-state.ts";
import type { CompiledStreak } from "./compile.ts";

/**
 * A run of periods (of CONSECUTIVE: of events), besides what has columns. Periods are numbers in
 * `StreakDoc.zone`; see periods.ts.
 */
export type Run = {
  first: number;
  /** The last completed one. */
  last: number;
  /** Periods kept by a freeze, or bridged by a repair, ascending. */
  frozen: readonly number[];
  /** Name of the run in keys of rewards: its first date, of CONSECUTIVE with the run's number. */
  name: string;
};

/** A run that broke, with what is needed to restore it. */
export type LostRun = Run & {
  length: number;
  /** Its deadline; null for CONSECUTIVE. */
  deadlineMs: number | null;
  /** When it broke, which is when the time for repairs begins. */
  brokenMs: number;
  by: "MISSED" | "BREAK_EVENT";
};

/** Progress of periods, newest last; `of` identifies the parts that it was gathered for. */
export type Progress = {
  of: number;
  periods: readonly (readonly [period: number, states: readonly (AggregateState | null)[]])[];
};

/** The jsonb of player_streaks. */
export type StreakDoc = {
  /** The zone in which periods are counted, and when it was adopted in place of another one. */
  zone?: string;
  zoneMs?: number;
  /** The current run; absent when `current` is 0. */
  run?: Run;
  /** When a run was last extended. */
  lastMs?: number;
  lost?: LostRun;
  progress?: Progress;
  /** Completed periods before the current run that are not next to it, nor to the lost one; ascending. */
  early?: readonly number[];
  /** The deadline that the player was warned about. */
  warned?: number;
  /** Number of runs so far (CONSECUTIVE). */
  runs?: number;
  /**
   * Lengths of runs up to which milestones were rewarded, by their name, latest last: none is rewarded twice.
   */
  won?: readonly (readonly [run: string, length: number])[];
  /** Periods before this one are final: the streak was reset. For CONSECUTIVE: in ms. */
  floor?: number;
  /** When the sweeper must look again, in ms; also stored in a column. */
  dueMs?: number;
};

export type Streak = Omit<StreakState, "doc"> & { doc: StreakDoc };

/** Changes of a streak, in order; `announce` converts them to events and rows. */
export type Step =
  | { kind: "FROZEN"; period: number; current: number; freezesLeft: number }
  | { kind: "BROKEN"; lost: LostRun }
  | { kind: "ARCHIVED"; run: ArchivedRun; by: "MISSED" | "BREAK_EVENT" | "RESET" }
  | { kind: "REPAIRED"; current: number; by: "LATE_EVENT" | "PURCHASE" | "ADMIN" }
  | { kind: "EXTENDED"; period: number; current: number; longest: number; deadlineMs: number | null }
  | { kind: "REACHED"; name: string; from: number; to: number };

export type ArchivedRun = Run & { length: number };

/** A streak after an operation, and its changes. The state is the previous one when nothing changed. */
export type Settled = { state: Streak; steps: readonly Step[] };

export const NO_STEPS: readonly Step[] = [];

/** Returns the initial state of a player without activity. */
export const untouched = ({ definition: { freeze } }: CompiledStreak): Streak => ({
  current: 0,
  longest: 0,
  freezes: freeze?.enabled ? Math.min(freeze.initial, freeze.max) : 0,
  deadlineMs: null,
  doc: {},
});

/** Returns a copy of a document without one of its fields. */
export const without = <K extends keyof StreakDoc>(doc: StreakDoc, name: K): Omit<StreakDoc, K> => {
  const { [name]: _gone, ...rest } = doc;
  return rest;
};
