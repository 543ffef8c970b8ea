import type { AggregateState } from "../metrics/aggregates.ts";
import type { StreakState } from "../player-state.ts";
import type { CompiledStreak } from "./compile.ts";

/**
 * A run of periods (of CONSECUTIVE: of events), as far as columns do not hold it. Periods are numbers in
 * `StreakDoc.zone`; see periods.ts.
 */
export type Run = {
  first: number;
  /** The last one that was done. */
  last: number;
  /** Those that a freeze has kept, or that a repair has bridged, ascending. */
  frozen: readonly number[];
  /** Names the run in keys of rewards: its first date, of CONSECUTIVE with the run's number. */
  name: string;
};

/** A run that broke: what is needed to take it up again. */
export type LostRun = Run & {
  length: number;
  /** When it was due; null for CONSECUTIVE. */
  deadlineMs: number | null;
  /** When it broke, which is when the time for repairs begins. */
  brokenMs: number;
  by: "MISSED" | "BREAK_EVENT";
};

/** What periods have gathered so far, newest last; `of` names the parts that it was gathered for. */
export type Progress = {
  of: number;
  periods: readonly (readonly [period: number, states: readonly (AggregateState | null)[]])[];
};

/** The jsonb of player_streaks. */
export type StreakDoc = {
  /** In which zone periods are counted, and when it was taken over from another one. */
  zone?: string;
  zoneMs?: number;
  /** The run in hand; absent when `current` is 0. */
  run?: Run;
  /** When a run was last extended. */
  lastMs?: number;
  lost?: LostRun;
  progress?: Progress;
  /** The deadline of which the player was warned. */
  warned?: number;
  /** Runs so far (CONSECUTIVE). */
  runs?: number;
  /** How far runs have come to milestones, by their name, latest last: none is rewarded twice. */
  won?: readonly (readonly [run: string, length: number])[];
  /** Periods before this one are over for good: the streak was reset. Of CONSECUTIVE: in ms. */
  floor?: number;
  /** When the sweeper has to look again, in ms; in a column too. */
  dueMs?: number;
};

export type Streak = Omit<StreakState, "doc"> & { doc: StreakDoc };

/** What became of a streak, in order; `announce` makes events and rows of it. */
export type Step =
  | { kind: "FROZEN"; period: number; current: number; freezesLeft: number }
  | { kind: "BROKEN"; lost: LostRun }
  | { kind: "ARCHIVED"; run: ArchivedRun; by: "MISSED" | "BREAK_EVENT" | "RESET" }
  | { kind: "REPAIRED"; current: number; by: "LATE_EVENT" | "PURCHASE" | "ADMIN" }
  | { kind: "EXTENDED"; period: number; current: number; longest: number; deadlineMs: number | null }
  | { kind: "REACHED"; name: string; from: number; to: number };

export type ArchivedRun = Run & { length: number };

/** A streak after something, and the steps to it. The state is the one that came in when nothing changed. */
export type Settled = { state: Streak; steps: readonly Step[] };

export const NO_STEPS: readonly Step[] = [];

/** Where a player begins who has done nothing yet. */
export const untouched = ({ definition: { freeze } }: CompiledStreak): Streak => ({
  current: 0,
  longest: 0,
  freezes: freeze?.enabled ? Math.min(freeze.initial, freeze.max) : 0,
  deadlineMs: null,
  doc: {},
});

/** A copy of a document without one of its fields. */
export const without = <K extends keyof StreakDoc>(doc: StreakDoc, name: K): Omit<StreakDoc, K> => {
  const { [name]: _gone, ...rest } = doc;
  return rest;
};
