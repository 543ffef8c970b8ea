import { z } from "zod";
import { definitionKind } from "../definitions/kind.ts";
import { fnv1a } from "../ids.ts";
import { addSample, aggregateValue, type AggregateState } from "../metrics/aggregates.ts";
import { compileFilter, Filter, filterSteps } from "../metrics/filter.ts";
import { compileSample, EVENT_TYPES_MAX, WindowlessMetric } from "../metrics/metric.ts";
import type { Spender } from "../progression/event-accounts.ts";
import type { Heard } from "../progression/rule-event.ts";
import { RewardBundle } from "../rewards/bundle.ts";
import { createTypeIndex } from "../rules/language/patterns.ts";
import { EventPattern, Key } from "../rules/language/syntax.ts";
import { CALENDAR_UNITS, type CalendarUnit } from "../rules/language/zones.ts";
import { checkReferences, checkStreak } from "./check.ts";
import type { Calendar } from "./periods.ts";

export const STREAKS_MAX = 20;
export const QUALIFY_PARTS_MAX = 5;
export const MILESTONES_MAX = 20;
export const FREEZES_MAX = 100;
/** Grace must end before the period after the one it forgives does. */
export const GRACE_SECONDS_MAX = 43_200;
export const REPAIR_HOURS_MAX = 720;
const LENGTH_MAX = 100_000;
const THRESHOLD_MAX = 9e9;
const DAY_MINUTES = 1_440;

const Part = z.strictObject({
  metric: WindowlessMetric,
  threshold: z.number().gt(0).max(THRESHOLD_MAX).default(1).describe("The metric's value that is enough"),
});

const BreakOn = z.strictObject({
  eventTypes: z.array(EventPattern).min(1).max(EVENT_TYPES_MAX),
  filter: Filter.optional(),
});

const Freeze = z.strictObject({
  enabled: z.boolean().default(true),
  max: z.int().min(1).max(FREEZES_MAX).default(2).describe("Freezes that a player may hold"),
  initial: z.int().min(0).max(FREEZES_MAX).default(0).describe("What a player begins with"),
  autoEarnEvery: z
    .int()
    .min(2)
    .max(LENGTH_MAX)
    .optional()
    .describe("One more with every so many periods of a run"),
  autoUse: z
    .boolean()
    .default(true)
    .describe("A missed period uses one by itself; else a repair that pays uses one for each missed period"),
});

const Milestone = z.strictObject({
  length: z.int().min(1).max(LENGTH_MAX),
  every: z.int().min(1).max(LENGTH_MAX).optional().describe("And again with every so many more"),
  rewards: RewardBundle.default({}),
});

const shape = z.strictObject({
  key: Key,
  name: z.string().min(1).max(100),
  description: z.string().max(2_000).optional(),
  mode: z
    .enum(["PERIODIC", "CONSECUTIVE"])
    .default("PERIODIC")
    .describe("PERIODIC: periods in a row. CONSECUTIVE: events in a row, until one of `breakOn`"),
  period: z.enum(CALENDAR_UNITS).default("DAY").describe("Local days, weeks from Monday, or months"),
  qualify: z
    .strictObject({
      mode: z.enum(["ALL", "ANY"]).default("ALL").describe("Whether every part is needed, or one"),
      parts: z.array(Part).min(1).max(QUALIFY_PARTS_MAX),
    })
    .describe("What a period takes to count; of CONSECUTIVE, what an event takes"),
  breakOn: BreakOn.optional().describe("CONSECUTIVE only: an event that ends the run"),
  timezonePolicy: z.enum(["PLAYER", "PROJECT"]).default("PLAYER").describe("Whose zone cuts the periods"),
  dayStartsAtMinutes: z
    .int()
    .min(0)
    .max(DAY_MINUTES - 1)
    .default(0)
    .describe("How long after midnight periods begin"),
  graceSeconds: z
    .int()
    .min(0)
    .max(GRACE_SECONDS_MAX)
    .default(0)
    .describe("How long after its end a period can still be done"),
  freeze: Freeze.optional().describe("Freezes keep a run through missed periods"),
  repairWindowHours: z
    .int()
    .min(0)
    .max(REPAIR_HOURS_MAX)
    .default(0)
    .describe("How long after it broke a run can be repaired; 0 for not at all"),
  repairCost: z
    .strictObject({ currencyKey: Key, amount: z.int().min(1).max(Number.MAX_SAFE_INTEGER) })
    .optional()
    .describe("What a repair that pays takes"),
  milestones: z.array(Milestone).max(MILESTONES_MAX).default([]),
});

/** A streak of a project. */
export const Streak = shape.superRefine(checkStreak).meta({
  example: {
    key: "daily-lesson",
    name: "Daily lesson",
    period: "DAY",
    qualify: {
      mode: "ALL",
      parts: [{ metric: { eventTypes: ["lesson.completed"], aggregate: "count" }, threshold: 1 }],
    },
    freeze: { enabled: true, max: 2, initial: 1, autoEarnEvery: 7 },
    repairWindowHours: 48,
    milestones: [{ length: 7, every: 7, rewards: { xp: 50 } }],
  },
});
export type Streak = z.output<typeof shape>;

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

export const streakKind = definitionKind<Streak>({
  kind: "streak",
  plural: "streaks",
  tag: "Streaks",
  schema: Streak,
  shape,
  max: STREAKS_MAX,
  check: checkReferences,
});
