import { fnv1a } from "../../kernel/ids.ts";
import { addSample, aggregateValue, type AggregateState } from "../metrics/aggregates.ts";
import { compileSample } from "../metrics/compile.ts";
import { compileFilter, filterSteps } from "../metrics/filter.ts";
import type { Spender } from "../event-accounts.ts";
import type { EventContext } from "../rule-event.ts";
import { createTypeIndex } from "../language/patterns.ts";
import type { CalendarUnit } from "../../kernel/zones.ts";
import type { Calendar } from "./periods.ts";
import type { Streak } from "./streak.ts";

/** A part of the qualification, compiled for evaluation. */
export type CompiledPart = {
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
  definition: Streak;
  calendar: Calendar;
  graceMs: number;
  /** A run is at risk when this much or less is left, in ms. */
  riskMs: number;
  parts: readonly CompiledPart[];
  /** Identifies the parts that the progress of periods was gathered for. */
  signature: number;
  /** Returns whether an event of a type can affect it. */
  listensTo(eventType: string): boolean;
  /** Returns the indexes of the parts that an event of a type counts for, and whether it may end the run. */
  impactOf(eventType: string): EventImpact;
  breaks(context: EventContext): boolean;
  /** Maximum steps of an event, besides the texts that filters search. */
  steps: number;
  spender: Spender;
};

const HOUR_MS = 3_600_000;
/** Domain convention: the last 4 hours of a day, the last day of a week, the last 3 days of a month. */
const RISK_MS: Record<CalendarUnit, number> = { DAY: 4 * HOUR_MS, WEEK: 24 * HOUR_MS, MONTH: 72 * HOUR_MS };

const NOTHING: EventImpact = { parts: [], mayBreak: false };

const compilePart = ({ metric, threshold }: Streak["qualify"]["parts"][number]): CompiledPart => {
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

/** Steps of settling a streak, and of adding to a part; distinct takes more. */
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
  const context = createTypeIndex(listeners, (found): EventImpact => {
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
    listensTo: (eventType) => context(eventType) !== NOTHING,
    impactOf: context,
    steps: stepsOf(definition),
    spender: { kind: "streak", id, key: definition.key },
    breaks: breakOn?.filter ? compileFilter(breakOn.filter) : () => breakOn !== undefined,
  };
};
