import { fnv1a } from "../../kernel/ids.ts";
import { addSample, aggregateValue, type AggregateState } from "../metrics/aggregates.ts";
import { compileSample } from "../metrics/compile.ts";
import { compileFilter, filterSteps } from "../metrics/filter.ts";
import type { Spender } from "../event-accounts.ts";
import type { Heard } from "../rule-event.ts";
import { createTypeIndex } from "../language/patterns.ts";
import type { CalendarUnit } from "../../kernel/zones.ts";
import type { Calendar } from "./periods.ts";
import type { Streak } from "./streak.ts";

/** A part of what qualifies, ready for evaluation. */
export type CompiledPart = {
  threshold: number;
  /** The state with the turn's event; the same one when the event does not count for this part. */
  add(state: AggregateState | null, heard: Heard): AggregateState | null;
  valueOf(state: AggregateState | null): number;
};

/** What an event of some type may do to a streak. */
type Doings = { parts: readonly number[]; mayBreak: boolean };

/** A streak ready for evaluation. */
export type CompiledStreak = {
  id: string;
  definition: Streak;
  calendar: Calendar;
  graceMs: number;
  /** A run is at risk when this much or less is left, in ms. */
  riskMs: number;
  parts: readonly CompiledPart[];
  /** Tells whether what periods have gathered was gathered for these parts. */
  signature: number;
  /** Whether an event of a type can do anything to it. */
  hears(eventType: string): boolean;
  /** The parts, by their place, that an event of a type counts for, and whether it may end the run. */
  heard(eventType: string): Doings;
  breaks(heard: Heard): boolean;
  /** What an event takes at most, in steps, beside the texts that filters look through. */
  steps: number;
  spender: Spender;
};

const HOUR_MS = 3_600_000;
/** Domain convention: the last 4 hours of a day, the last day of a week, the last 3 days of a month. */
const RISK_MS: Record<CalendarUnit, number> = { DAY: 4 * HOUR_MS, WEEK: 24 * HOUR_MS, MONTH: 72 * HOUR_MS };

const NOTHING: Doings = { parts: [], mayBreak: false };

const compilePart = ({ metric, threshold }: Streak["qualify"]["parts"][number]): CompiledPart => {
  const { aggregate } = metric;
  const sampleOf = compileSample(metric);
  return {
    threshold,
    add: (state, heard) => {
      const sample = sampleOf(heard);
      return sample === undefined ? state : addSample(aggregate, state ?? undefined, sample, heard.event.at);
    },
    valueOf: (state) => aggregateValue(aggregate, state ?? undefined) ?? 0,
  };
};

/** Steps of settling a streak, and of adding to a part; telling values apart takes more. */
const SETTLE_STEPS = 50;
const PART_STEPS = 10;
const DISTINCT_STEPS = 100;

const stepsOf = ({ qualify: { parts }, breakOn }: Streak): number => {
  let steps = SETTLE_STEPS + filterSteps(breakOn?.filter);
  for (const { metric } of parts)
    steps += filterSteps(metric.filter) + (metric.aggregate === "distinct" ? DISTINCT_STEPS : PART_STEPS);
  return steps;
};

export const compileStreak = ({ id, definition }: { id: string; definition: Streak }): CompiledStreak => {
  const { qualify, breakOn, period, dayStartsAtMinutes, graceSeconds } = definition;
  const listeners = [
    ...qualify.parts.map(({ metric }, part) => ({ patterns: metric.eventTypes, part })),
    ...(breakOn ? [{ patterns: breakOn.eventTypes, part: -1 }] : []),
  ];
  const heard = createTypeIndex(listeners, (found): Doings => {
    if (found.length === 0) return NOTHING;
    const parts = found.map(({ part }) => part);
    return { parts: parts.filter((part) => part >= 0), mayBreak: parts.includes(-1) };
  });
  return {
    id,
    definition,
    calendar: { unit: period, dayStartsMs: dayStartsAtMinutes * 60_000 },
    graceMs: graceSeconds * 1_000,
    riskMs: RISK_MS[period],
    parts: qualify.parts.map(compilePart),
    signature: fnv1a(JSON.stringify(qualify.parts)),
    hears: (eventType) => heard(eventType) !== NOTHING,
    heard,
    steps: stepsOf(definition),
    spender: { kind: "streak", id, key: definition.key },
    breaks: breakOn?.filter ? compileFilter(breakOn.filter) : () => breakOn !== undefined,
  };
};
