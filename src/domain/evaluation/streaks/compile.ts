import { createTypeIndex } from "../language/patterns.ts";
import { addSample, type AggregateState, aggregateValue } from "../metrics/aggregates.ts";
import { compileFilter, compileSample } from "../metrics/compile.ts";
import type { StreakState } from "../player-state.ts";
import type { EventContext } from "../rule-event.ts";
import type { StreakCalendar } from "./periods.ts";
import type { Streak as StreakDefinition } from "./streak.ts";
import { fnv1a } from "../../kernel/ids.ts";
import type { CalendarProject, CalendarUnit } from "../../kernel/zones.ts";

/** A part of the qualification, compiled for evaluation. */
type CompiledPart = {
  threshold: number;
  /** Returns the state with the turn's event; the same one when the event does not count for this part. */
  add(state: AggregateState | null, context: EventContext): AggregateState | null;
  valueOf(state: AggregateState | null): number;
};

/** Possible effects of an event type on a streak. */
type EventImpact = { parts: readonly number[]; mayBreak: boolean };

/** A streak compiled for evaluation. */
export type CompiledStreak = {
  id: string;
  definition: StreakDefinition;
  calendar: StreakCalendar;
  graceMs: number;
  /** A run is at risk when this much or less is left, in ms. */
  riskMs: number;
  parts: readonly CompiledPart[];
  /** Identifies the metrics that the progress of periods was gathered for; the second is of earlier servers. */
  signatures: readonly [number, number];
  /** Returns whether an event of a type can affect it. */
  listensTo(eventType: string): boolean;
  /** Returns the indexes of the parts that an event of a type counts for, and whether it may end the run. */
  impactOf(eventType: string): EventImpact;
  breaks(context: EventContext): boolean;
};

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Domain convention: the last 4 hours of a day, the last day of a week, the last 3 days of a month. */
const RISK_MS: Record<CalendarUnit, number> = { DAY: 4 * HOUR_MS, WEEK: 24 * HOUR_MS, MONTH: 72 * HOUR_MS };

const NOTHING: EventImpact = { parts: [], mayBreak: false };

const compilePart = ({ metric, threshold }: StreakDefinition["qualify"]["parts"][number]): CompiledPart => {
  const { aggregate } = metric;
  const sampleOf = compileSample(metric);
  return {
    threshold,
    add: (state, context) => {
      const sample = sampleOf(context);
      return sample === undefined
        ? state
        : addSample(aggregate, state ?? undefined, sample, context.event.at);
    },
    valueOf: (state) => aggregateValue(aggregate, state ?? undefined) ?? 0,
  };
};

/** Returns which days are off, by their number. */
const compileDaysOff = ({ daysOff }: StreakDefinition): ((day: number) => boolean) => {
  if (!daysOff) return () => false;
  const weekdays = new Set(daysOff.weekdays);
  const dates = new Set(daysOff.dates.map((date) => Date.parse(date) / DAY_MS));
  // 1970-01-01 was a Thursday.
  return (day) => weekdays.has(((((day + 3) % 7) + 7) % 7) + 1) || dates.has(day);
};

export const compileStreak = ({
  id,
  definition,
  settings,
}: {
  id: string;
  definition: StreakDefinition;
  settings: CalendarProject["settings"];
}): CompiledStreak => {
  const { qualify, breakOn, period, graceSeconds } = definition;
  const dayStartsAtMinutes = definition.dayStartsAtMinutes ?? settings.dayStartsAtMinutes;
  const listeners = [
    ...qualify.parts.map(({ metric }, part) => ({ patterns: metric.eventTypes, part })),
    ...(breakOn ? [{ patterns: breakOn.eventTypes, part: -1 }] : []),
  ];
  const context = createTypeIndex(listeners, (found): EventImpact => {
    if (found.length === 0) return NOTHING;
    const parts = found.map(({ part }) => part);
    return { parts: parts.filter((part) => part >= 0), mayBreak: parts.includes(-1) };
  });
  return {
    id,
    definition,
    calendar: {
      unit: period,
      weekStartsOn: settings.weekStartsOn,
      dayStartsMs: dayStartsAtMinutes * 60_000,
      isOff: compileDaysOff(definition),
    },
    graceMs: graceSeconds * 1_000,
    riskMs: RISK_MS[period],
    parts: qualify.parts.map(compilePart),
    signatures: [
      fnv1a(JSON.stringify(qualify.parts.map(({ metric }) => metric))),
      fnv1a(JSON.stringify(qualify.parts)),
    ],
    listensTo: (eventType) => context(eventType) !== NOTHING,
    impactOf: context,
    breaks: breakOn?.filter ? compileFilter(breakOn.filter) : () => breakOn !== undefined,
  };
};

/**
 * A run of periods (of CONSECUTIVE: of events), besides what has columns. Periods are numbers in
 * `StreakDoc.zone`; see periods.ts.
 */
export type Run = {
  first: number;
  /** The last completed one. */
  last: number;
  /** Periods kept by a freeze, a repair or a day off, ascending. */
  frozen: readonly number[];
  /** Those of them that used a freeze or a repair; absent: all. */
  paid?: readonly number[];
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
type Progress = {
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

/** Periods whose progress is kept; for older ones an event counts if it suffices alone. */
const PERIODS_KEPT = 2;

type States = readonly (AggregateState | null)[];
type Entry = Progress["periods"][number];

/** Adds an event to the progress of the parts; undefined when it counts for none. */
const addTo = (
  { parts, impactOf }: CompiledStreak,
  states: States,
  context: EventContext,
): States | undefined => {
  let added: (AggregateState | null)[] | undefined;
  for (const part of impactOf(context.event.type).parts) {
    const old = states[part] ?? null;
    const next = parts[part]!.add(old, context);
    if (next === null) continue;
    // Adding to a sum may leave it unchanged.
    added ??= [...states];
    added[part] = next;
  }
  return added;
};

/** Returns whether the progress of the parts suffices. */
export const isEnough = ({ parts, definition }: CompiledStreak, states: States): boolean => {
  const isMet = (state: AggregateState | null, part: number): boolean =>
    state !== null && parts[part]!.valueOf(state) >= parts[part]!.threshold;
  return definition.qualify.mode === "ALL" ? states.every(isMet) : states.some(isMet);
};

const nothing = ({ parts }: CompiledStreak): States => parts.map(() => null);

/** Returns whether one event suffices by itself. */
export const sufficesAlone = (streak: CompiledStreak, context: EventContext): boolean => {
  const states = addTo(streak, nothing(streak), context);
  return states !== undefined && isEnough(streak, states);
};

const periodsOf = ({ signatures }: CompiledStreak, progress: Progress | undefined): readonly Entry[] =>
  progress && signatures.includes(progress.of) ? progress.periods : [];

/** Returns the progress of a period. */
export const statesOf = (streak: CompiledStreak, progress: Progress | undefined, period: number): States =>
  periodsOf(streak, progress).find(([one]) => one === period)?.[1] ?? nothing(streak);

/**
 * Adds an event to the progress of its period.
 * @returns the progress to store, and whether the period is complete; undefined when the event does not count
 */
export const gather = (
  streak: CompiledStreak,
  progress: Progress | undefined,
  { period, context }: { period: number; context: EventContext },
): { progress: Progress; isEnough: boolean } | undefined => {
  const periods = periodsOf(streak, progress);
  const states = addTo(streak, statesOf(streak, progress, period), context);
  if (!states) return undefined;
  const entries: Entry[] = [...periods.filter(([one]) => one !== period), [period, states]];
  entries.sort(([a], [b]) => a - b);
  const kept = { of: streak.signatures[0], periods: entries.slice(-PERIODS_KEPT) };
  return { progress: kept, isEnough: isEnough(streak, states) };
};
