import { z } from "zod";
import { isHeardType } from "../events.ts";
import type { Spender } from "../progression/event-accounts.ts";
import type { Heard } from "../progression/rule-event.ts";
import type { Turn } from "../progression/turn.ts";
import { type Pieces, stepsOfValue } from "../pace.ts";
import { atOnce } from "../slices.ts";
import { StepBudget } from "../step-budget.ts";
import { compilePath, type Reader } from "../rules/language/paths.ts";
import { createTypeIndex } from "../rules/language/patterns.ts";
import { EventPattern, Path } from "../rules/language/syntax.ts";
import { CALENDAR_UNITS, firstZone } from "../rules/language/zones.ts";
import { AGGREGATES, distinctHash, isClamped, type AggregateState, type Sample } from "./aggregates.ts";
import {
  addToCounter,
  type Counter,
  type CounterState,
  type CounterWindow,
  isLate,
  type Moment,
  readCounter,
  ROLLING_BUCKETS,
} from "./counters.ts";
import { compileFilter, Filter, filterSteps } from "./filter.ts";
import { metricId } from "./metric-id.ts";

export const EVENT_TYPES_MAX = 20;
const MINUTE_SECONDS = 60;
const YEAR_SECONDS = 31_536_000;

const Source = EventPattern.refine(isHeardType, "is no event of a player");

export const MetricWindow = z
  .discriminatedUnion(
    "type",
    [
      z.strictObject({ type: z.literal("LIFETIME") }),
      z.strictObject({
        type: z.literal("CALENDAR"),
        unit: z.enum(CALENDAR_UNITS),
        timezone: z.enum(["PLAYER", "PROJECT"]).default("PLAYER"),
      }),
      z.strictObject({ type: z.literal("ROLLING"), seconds: z.int().min(MINUTE_SECONDS).max(YEAR_SECONDS) }),
      z.strictObject({ type: z.literal("SINCE"), at: z.iso.datetime({ offset: true }) }),
    ],
    { error: "must have a type of LIFETIME, CALENDAR, ROLLING or SINCE" },
  )
  .meta({ id: "MetricWindow" });

const fields = {
  eventTypes: z.array(Source).min(1).max(EVENT_TYPES_MAX),
  filter: Filter.optional().describe("Which of these events count"),
  aggregate: z.enum(AGGREGATES),
  property: Path.optional().describe("What is aggregated: needed by all but count"),
};

const checkProperty = (
  { aggregate, property }: { aggregate: string; property?: string | undefined },
  context: z.RefinementCtx,
): void => {
  const refuse = (message: string) => context.addIssue({ code: "custom", path: ["property"], message });
  if (aggregate === "count" && property !== undefined) refuse("count takes no property");
  if (aggregate !== "count" && property === undefined) refuse(`${aggregate} needs a property`);
};

/** What is counted of a player's events where something else decides about the window, such as a streak. */
export const WindowlessMetric = z
  .strictObject(fields)
  .superRefine(checkProperty)
  .meta({ id: "WindowlessMetric" });
export type WindowlessMetric = z.output<typeof WindowlessMetric>;

/**
 * What is counted of a player's events: all of them, those of a local calendar window, of a span of seconds,
 * or from a moment on.
 */
export const Metric = z
  .strictObject({ ...fields, window: MetricWindow.default({ type: "LIFETIME" }) })
  .superRefine(checkProperty)
  .meta({ id: "Metric" });
export type Metric = z.output<typeof Metric>;

/** A counter of a player's events, ready for evaluation. */
export type CompiledMetric = Counter & {
  /** Key of the player's state in `player.doc.c`; equal metrics have one. */
  id: string;
  definition: Metric;
  /** Whose zone a CALENDAR window goes by. */
  zone: "PLAYER" | "PROJECT";
  /** What an event of one of the metric's types adds; undefined when it does not count. */
  sampleOf(heard: Heard): Sample | undefined;
  /** What counting an event takes at most, in steps, beside the texts that the filter looks through. */
  steps: number;
  /** The first definition that reads it; undefined where it stands for itself. */
  spender: Spender | undefined;
};

const windowOf = ({ window }: Metric): CounterWindow => {
  if (window.type === "SINCE") return { type: "SINCE", atMs: Date.parse(window.at) };
  if (window.type === "ROLLING")
    return { type: "ROLLING", bucketMs: (window.seconds * 1_000) / ROLLING_BUCKETS };
  return window.type === "CALENDAR" ? { type: "CALENDAR", unit: window.unit } : { type: "LIFETIME" };
};

const readerOf = ({ aggregate, property }: WindowlessMetric): ((read: unknown) => Sample | undefined) => {
  if (aggregate === "count") return () => 1;
  const read: Reader = compilePath(property!);
  if (aggregate === "distinct") return (properties) => distinctHash(read(properties));
  return (properties) => {
    const value = read(properties);
    return typeof value === "number" && Number.isFinite(value) ? value : undefined;
  };
};

/**
 * What an event of the metric's types adds: 1 for count, the hash of the property for distinct, else the
 * property itself; undefined when the filter or the property's type leaves the event out.
 */
export const compileSample = (metric: WindowlessMetric): ((heard: Heard) => Sample | undefined) => {
  const sample = readerOf(metric);
  if (!metric.filter) return ({ event }) => sample(event.properties);
  const passes = compileFilter(metric.filter);
  return (heard) => (passes(heard) ? sample(heard.event.properties) : undefined);
};

/** Steps of reading or writing a counter, by its window, and what telling values apart adds. */
const WINDOW_STEPS = { LIFETIME: 2, SINCE: 2, CALENDAR: 20, ROLLING: 40 };
const DISTINCT_STEPS = 100;

/** What reading a counter, or counting in it, takes at most, in steps. */
export const counterSteps = ({ aggregate, window }: Pick<Metric, "aggregate" | "window">): number =>
  WINDOW_STEPS[window.type] + (aggregate === "distinct" ? DISTINCT_STEPS : 0);

const compiled = new WeakMap<Metric, CompiledMetric>();

/** Prepares a metric, once for each. @param spender the definition that pays for it */
export const compileMetric = (metric: Metric, spender?: Spender): CompiledMetric => {
  const known = compiled.get(metric) ?? prepare(metric);
  compiled.set(metric, known);
  return spender ? { ...known, spender } : known;
};

const prepare = (metric: Metric): CompiledMetric => ({
  id: metricId(metric),
  steps: 4 + filterSteps(metric.filter) + counterSteps(metric),
  spender: undefined,
  definition: metric,
  aggregate: metric.aggregate,
  window: windowOf(metric),
  zone: metric.window.type === "CALENDAR" ? metric.window.timezone : "PLAYER",
  sampleOf: compileSample(metric),
});

/** The metrics of a project by event type. */
export type MetricIndex = { forEvent(eventType: string): readonly CompiledMetric[] };

/** Indexes the metrics that a project's rules, badges and segments read; equal ones are one counter. */
export const indexMetrics = (metrics: readonly Metric[]): MetricIndex => atOnce(metricPieces(metrics));

/** Steps of indexing a metric that was compiled before. */
const INDEX_STEPS = 20;

/** As `indexMetrics`, in pieces. */
export function* metricPieces(
  metrics: readonly Metric[],
  spenderOf: (metric: Metric) => Spender | undefined = () => undefined,
): Pieces<MetricIndex> {
  const byId = new Map<string, CompiledMetric>();
  for (const metric of metrics) {
    yield compiled.has(metric) ? INDEX_STEPS : INDEX_STEPS + stepsOfValue(metric);
    const id = metricId(metric);
    if (!byId.has(id)) byId.set(id, compileMetric(metric, spenderOf(metric)));
  }
  const listeners = [...byId.values()].map((metric) => ({
    metric,
    patterns: metric.definition.eventTypes,
  }));
  const listening = createTypeIndex(listeners, (found) => found.map(({ metric }) => metric));
  return { forEvent: listening };
}

type Whose = Pick<Turn, "player" | "project">;

const momentOf = ({ zone, window }: CompiledMetric, { player, project }: Whose, at: number): Moment => {
  if (window.type !== "CALENDAR") return { at, zone: "UTC" };
  return {
    at,
    zone: zone === "PLAYER" ? firstZone(player.timezone, project.timezone) : firstZone(project.timezone),
  };
};

const stateOf = ({ player }: Whose, { id }: CompiledMetric): CounterState | undefined =>
  player.doc.c?.[id] as CounterState | undefined;

/** Step 1 of evaluation: counts the event in every metric of its type, in the window of its own time. */
export const countEvent = (turn: Turn): void => {
  const { upkeep } = turn.root.accounts;
  for (const metric of turn.project.metrics.forEvent(turn.event.type)) {
    if (upkeep.isSpent) return turn.warn(`out of steps: ${nameOf(metric)} and what follows do not count`);
    const before = upkeep.spent;
    upkeep.spend(metric.steps);
    count(turn, metric);
    if (metric.spender) upkeep.noteSpender(metric.spender, before);
  }
};

const count = (turn: Turn, metric: CompiledMetric): void => {
  const { player, event } = turn;
  const sample = metric.sampleOf(turn);
  if (sample === undefined) return;
  const old = stateOf(turn, metric);
  const moment = momentOf(metric, turn, event.at);
  const next = addToCounter(metric, old, sample, moment);
  if (next === old) {
    if (isLate(metric, old, moment)) turn.warn(`late: ${nameOf(metric)} no longer counts that window`);
    return;
  }
  if (isOver(metric, next)) turn.warn(`${nameOf(metric)} has reached the bound of ±9,000,000,000`);
  (player.doc.c ??= {})[metric.id] = next;
  player.dirty.doc = true;
};

const nameOf = ({ definition: { aggregate, eventTypes, property } }: CompiledMetric): string =>
  `metric ${aggregate}(${property ?? eventTypes.join(", ")})`;

const isOver = ({ aggregate, window }: CompiledMetric, state: CounterState | undefined): boolean => {
  if (window.type === "LIFETIME" || window.type === "SINCE")
    return isClamped(aggregate, state as AggregateState);
  const newest = (state as readonly [number, AggregateState][]).at(-1)!;
  return isClamped(aggregate, newest[1]);
};

/**
 * A metric's value for the turn's player at the time of the turn's event; undefined where there is none: min,
 * max, avg and latest of no events, or a window so old that it is no longer kept.
 */
export const readMetric = (turn: Pick<Turn, "player" | "project" | "event">, metric: CompiledMetric) =>
  readMetricAt(turn, metric, turn.event.at);

/** As `readMetric`, at any moment in ms. */
export const readMetricAt = (whose: Whose, metric: CompiledMetric, atMs: number): number | undefined =>
  readCounter(metric, stateOf(whose, metric), momentOf(metric, whose, atMs));

/** An event as it is stored, for counting again. */
export type PastEvent = { type: string; at: number; properties: Turn["event"]["properties"] };

/** The sample and moment that an event counts with; undefined when it does not. For reverts. */
export const sampleOfEvent = (
  metric: CompiledMetric,
  whose: Whose,
  { type, at, properties }: PastEvent,
  steps = new StepBudget(Infinity),
): { sample: Sample; moment: Moment } | undefined => {
  steps.spend(metric.steps);
  const sample = metric.sampleOf({ event: { id: "", type, at, properties, depth: 0 }, root: { steps } });
  return sample === undefined ? undefined : { sample, moment: momentOf(metric, whose, at) };
};

/**
 * Counts a metric from a player's events, in the order in which they came; `state` is what to go on from, and
 * `steps` is told what it takes.
 * Events of other types are left out, so all of a player's events may be given.
 */
export const foldEvents = (
  metric: CompiledMetric,
  whose: Whose,
  events: Iterable<PastEvent>,
  { state, steps }: { state?: CounterState | undefined; steps?: StepBudget } = {},
): CounterState | undefined => {
  const { forEvent } = indexMetrics([metric.definition]);
  let folded = state;
  for (const event of events) {
    const counted = forEvent(event.type).length > 0 ? sampleOfEvent(metric, whose, event, steps) : undefined;
    if (counted) folded = addToCounter(metric, folded, counted.sample, counted.moment);
  }
  return folded;
};
