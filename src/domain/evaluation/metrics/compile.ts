import { type Pieces, stepsOfValue } from "../../kernel/pace.ts";
import type { Spender } from "../event-accounts.ts";
import type { EventContext } from "../rule-event.ts";
import { compilePath, type Reader } from "../language/paths.ts";
import { createTypeIndex } from "../language/patterns.ts";
import { atOnce } from "../../kernel/slices.ts";
import { distinctHash, type Sample } from "./aggregates.ts";
import { type Counter, type CounterWindow, ROLLING_BUCKETS } from "./counters.ts";
import { compileFilter, filterSteps } from "./filter.ts";
import type { Metric, WindowlessMetric } from "./metric.ts";
import { metricId } from "./metric-id.ts";

/** A counter of a player's events, compiled for evaluation. */
export type CompiledMetric = Counter & {
  /** Key of the player's state in `player.doc.c`; equal metrics share one. */
  id: string;
  definition: Metric;
  /** Whose time zone a CALENDAR window uses. */
  zone: "PLAYER" | "PROJECT";
  /** Returns the contribution of an event of one of the metric's types; undefined when it does not count. */
  sampleOf(context: EventContext): Sample | undefined;
  /** Maximum steps of counting an event, besides the texts that the filter searches. */
  steps: number;
  /** The first definition that reads it; undefined where it is used by itself. */
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
 * Compiles the contribution of an event of the metric's types: 1 for count, the hash of the property for
 * distinct, otherwise the property itself; undefined when the filter or the property's type excludes the
 * event.
 */
export const compileSample = (metric: WindowlessMetric): ((context: EventContext) => Sample | undefined) => {
  const sample = readerOf(metric);
  if (!metric.filter) return ({ event }) => sample(event.properties);
  const passes = compileFilter(metric.filter);
  return (context) => (passes(context) ? sample(context.event.properties) : undefined);
};

/** Steps of reading or writing a counter, by its window, and the surcharge for distinct. */
const WINDOW_STEPS = { LIFETIME: 2, SINCE: 2, CALENDAR: 20, ROLLING: 40 };
const DISTINCT_STEPS = 100;

/** Returns the maximum steps of reading or updating a counter. */
export const counterSteps = ({ aggregate, window }: Pick<Metric, "aggregate" | "window">): number =>
  WINDOW_STEPS[window.type] + (aggregate === "distinct" ? DISTINCT_STEPS : 0);

const compiled = new WeakMap<Metric, CompiledMetric>();

/** Compiles a metric, once for each. @param spender the definition that pays for it */
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

/** The metrics of a project by event type, and the ids of all. */
export type MetricIndex = {
  forEvent(eventType: string): readonly CompiledMetric[];
  ids: ReadonlySet<string>;
};

/** Indexes the metrics that a project's rules, badges and segments read; equal ones share one counter. */
export const indexMetrics = (metrics: readonly Metric[]): MetricIndex => atOnce(metricPieces(metrics));

/** Steps of indexing a metric that was compiled before. */
const INDEX_STEPS = 20;

/** As `indexMetrics`, in slices. */
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
  return { forEvent: listening, ids: new Set(byId.keys()) };
}
