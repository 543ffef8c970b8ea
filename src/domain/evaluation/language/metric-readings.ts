import { z } from "zod";
import { type Metric, MetricWindow, WindowlessMetric } from "../metrics/metric.ts";
import { CALENDAR_UNITS } from "../../kernel/zones.ts";
import { NAMED_VALUES } from "./references.ts";
import { Key, smallRecord } from "./syntax.ts";

/** Maximum metrics that a rule names. */
export const NAMED_METRICS_MAX = 10;

/** Metrics by name, for the expressions of a rule, each of which says its window. */
export const NamedMetrics = smallRecord(
  z.record(Key, WindowlessMetric),
  NAMED_METRICS_MAX,
  `must name at most ${NAMED_METRICS_MAX}`,
);
export type NamedMetrics = z.output<typeof NamedMetrics>;

const ReadWindow = z.union([z.enum(["LIFETIME", ...CALENDAR_UNITS]), MetricWindow], {
  error:
    'must be LIFETIME, DAY, WEEK, MONTH or the window of a metric, such as {"type": "ROLLING", "seconds"}',
});

/** Reads a metric that the rule names, in a window at the event's time. */
export const MetricReading = z
  .strictObject({
    metric: Key.describe("The name of one of the rule's `metrics`"),
    window: ReadWindow.default("LIFETIME").describe("DAY, WEEK and MONTH are of the player's time zone"),
    default: z.number().optional().describe("Counts where there is no value"),
  })
  .meta({ id: "RuleMetricReading" });
export type MetricReading = z.output<typeof MetricReading>;

/** A reading whose metric is known. */
export type ResolvedReading = { metric: Metric; default?: number | undefined };

const windowOf = (window: MetricReading["window"]): Metric["window"] => {
  if (typeof window === "object") return window;
  return window === "LIFETIME" ? { type: window } : { type: "CALENDAR", unit: window, timezone: "PLAYER" };
};

type Named = { actions: readonly object[]; metrics?: NamedMetrics | undefined };

const isReading = (value: object): value is MetricReading =>
  "metric" in value && typeof value.metric === "string";

/** A reading somewhere in a rule's actions; `path` leads to it from them. */
type Found = { path: PropertyKey[]; reading: MetricReading };

const readingsIn = (actions: readonly object[]): Found[] => {
  const found: Found[] = [];
  const path: PropertyKey[] = [];
  const walk = (value: unknown): void => {
    if (value === null || typeof value !== "object") return;
    if (isReading(value) && !isRecord(path)) return void found.push({ path: [...path], reading: value });
    if (Array.isArray(value)) return value.forEach((item, i) => step(i, item));
    // The steps of a table are numbers alone, of which there may be thousands.
    for (const [name, inner] of Object.entries(value))
      if (name !== "steps" || !Array.isArray(inner)) step(name, inner);
  };
  const step = (name: PropertyKey, inner: unknown): void => {
    path.push(name);
    walk(inner);
    path.pop();
  };
  walk(actions);
  return found;
};

/** Whether a path from the actions leads to values by name, one of which may be called `metric`. */
const isRecord = ([, name, ...deeper]: PropertyKey[]): boolean =>
  deeper.length === 0 && NAMED_VALUES.has(String(name));

/** Returns the readings of metrics that the rule does not name, each with the path of the name. */
export const unknownReadings = ({ actions, metrics = {} }: Named): { path: PropertyKey[]; name: string }[] =>
  readingsIn(actions)
    .filter(({ reading }) => !Object.hasOwn(metrics, reading.metric))
    .map(({ path, reading }) => ({ path: ["actions", ...path, "metric"], name: reading.metric }));

const resolve = ({ metric, window, default: fallback }: MetricReading, metrics: NamedMetrics) => ({
  metric: { ...metrics[metric]!, window: windowOf(window) },
  default: fallback,
});

/** Returns the metrics that a rule's expressions read. */
export const expressionMetrics = ({ actions, metrics }: Named): Metric[] =>
  metrics ? readingsIn(actions).map(({ reading }) => resolve(reading, metrics).metric) : [];

/** Returns a rule's actions with the metrics in place of their names. */
export const resolveReadings = <A extends object>(
  actions: readonly A[],
  metrics: NamedMetrics | undefined,
): readonly A[] => {
  if (!metrics) return actions;
  const replace = (value: unknown, path: PropertyKey[]): unknown => {
    if (value === null || typeof value !== "object") return value;
    if (isReading(value) && !isRecord(path)) return resolve(value, metrics);
    if (Array.isArray(value)) return value.map((item, i) => replace(item, [...path, i]));
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [name, replace(inner, [...path, name])]),
    );
  };
  return replace(actions, []) as A[];
};
