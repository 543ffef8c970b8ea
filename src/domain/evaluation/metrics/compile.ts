import { hash } from "node:crypto";
import { z } from "zod";
import type { Spender } from "../event-cost.ts";
import { compilePath, EventPattern, Path, type Reader, Scalar, scalarList } from "../language/syntax.ts";
import { createTypeIndex } from "../language/patterns.ts";
import {
  addSample,
  type Aggregate,
  AGGREGATES,
  type AggregateState,
  aggregateValue,
  DISTINCT_MAX,
  distinctHash,
  emptyValue,
  HASH_LENGTH,
  hashesOf,
  holdsHash,
  mergeStates,
  type Sample,
  subtractSample,
} from "./aggregates.ts";
import type { EventContext } from "../rule-event.ts";
import { canTriggerRules } from "../../kernel/events/event-types.ts";
import { IsoTime } from "../../kernel/iso-time.ts";
import type { Steps } from "../../kernel/slices.ts";
import { type Calendar, CALENDAR_UNITS, type CalendarUnit, windowNumber } from "../../kernel/zones.ts";
import { checkOperand, comparisonFields, compileCheck, LIST_MAX } from "../language/operators.ts";
import {
  groupOf,
  groupShapes,
  joinTests,
  refuseAll,
  schemaProblems,
  type Tree,
  treeProblems,
} from "../language/trees.ts";

/**
 * Filter of events: the operators of the rules' `event_property`, combined with `all`, `any` and `none`. A
 * filter compares with literals only: its result must not depend on when events are counted. Shared by
 * metrics and leaderboards.
 */
const Leaf = z
  .strictObject({
    path: Path,
    op: comparisonFields.op,
    value: z
      .union([Scalar, scalarList(1, LIST_MAX)], {
        error: "must be a literal or a list of literals",
      })
      .optional(),
  })
  .superRefine(checkOperand);
type Leaf = z.output<typeof Leaf>;

export type Filter = Tree<Leaf>;

const Shape: z.ZodType<Filter> = z
  .lazy(() => z.union([...groupShapes(Shape), Leaf]))
  .meta({ id: "EventFilter" });

const explain = (filter: unknown, context: z.RefinementCtx): unknown => {
  const problems = treeProblems(filter, (leaf, path) => schemaProblems(Leaf, leaf, path));
  return refuseAll(filter, problems, context);
};

export const Filter = z.preprocess(explain, Shape);

/** Compiles a filter to a closure over the event. */
export const compileFilter = (filter: Filter): ((context: EventContext) => boolean) => {
  const group = groupOf(filter);
  if (group) return joinTests(group.key, group.members.map(compileFilter));
  const { path, op, value } = filter as Leaf;
  const read = compilePath(path);
  const matches = compileCheck(op, value);
  return (context) => matches(read(context.event.properties), context);
};

/** Calendar windows kept per counter: older events are not counted any more. */
const WINDOWS_KEPT = 8;
/** Number of equal buckets of a rolling window: an event leaves it at most one bucket late. */
const ROLLING_BUCKETS = 60;
/** Buckets that are read; the first of them is only partly within the window. */
const BUCKETS_READ = ROLLING_BUCKETS + 1;
/** Buckets kept: an event up to half a window late still reads the value of its time. */
const BUCKETS_KEPT = BUCKETS_READ + ROLLING_BUCKETS / 2;
/**
 * Maximum values that all calendar windows of one distinct counter keep together; older windows are evicted.
 */
const DISTINCT_KEPT = 2 * DISTINCT_MAX;

/** How a counter divides time. */
type CounterWindow =
  | { type: "LIFETIME" }
  | { type: "SINCE"; atMs: number }
  | { type: "CALENDAR"; unit: CalendarUnit }
  | { type: "ROLLING"; bucketMs: number };

/** A counter, as these functions see it. The calendar of a moment is used by CALENDAR only. */
type Counter = { aggregate: Aggregate; window: CounterWindow };
export type Moment = { at: number; calendar?: Calendar };

/**
 * A counter of one player as JSON: the aggregate's state, or with a CALENDAR or ROLLING window the states by
 * number of the window or bucket, ascending. null stands for a window whose value is unknown.
 */
export type CounterState = AggregateState | Windows;
type Windows = readonly Counted[];
type Counted = readonly [number: number, state: AggregateState | null];

const numberAt = (window: CounterWindow, { at, calendar }: Moment): number | undefined => {
  if (window.type === "CALENDAR") return windowNumber(window.unit, calendar!, at);
  return window.type === "ROLLING" ? Math.floor(at / window.bucketMs) : undefined;
};

const keptOf = ({ type }: CounterWindow): number => (type === "CALENDAR" ? WINDOWS_KEPT : BUCKETS_KEPT);

const NO_WINDOWS: Windows = [];
const windowsOf = (state: CounterState | undefined): Windows => (state as Windows | undefined) ?? NO_WINDOWS;

const newestOf = (windows: Windows): number => windows.at(-1)?.[0] ?? -Infinity;

const isBefore = ({ window }: Counter, { at }: Moment): boolean =>
  window.type === "SINCE" && at < window.atMs;

/**
 * Counts a sample in the window of its own time. Returns `state` itself where that window is no longer kept
 * (late), or begins later.
 */
export const addToCounter = (
  counter: Counter,
  state: CounterState | undefined,
  sample: Sample,
  moment: Moment,
): CounterState | undefined => {
  const { aggregate, window } = counter;
  const number = numberAt(window, moment);
  if (number === undefined) {
    if (isBefore(counter, moment)) return state;
    return addSample(aggregate, state as AggregateState | undefined, sample, moment.at);
  }
  const windows = windowsOf(state);
  if (number <= newestOf(windows) - keptOf(window)) return state;
  const isRolling = window.type === "ROLLING";
  if (aggregate === "distinct" && isRolling) return addToBuckets(windows, String(sample), number);
  const old = stateIn(windows, number);
  if (old === null) return state;
  return keepNewest(counter, withWindow(windows, number, addSample(aggregate, old, sample, moment.at)));
};

/** Returns whether a sample at this moment is too late to be counted. */
export const isLate = ({ window }: Counter, state: CounterState | undefined, moment: Moment): boolean => {
  const number = numberAt(window, moment);
  if (number === undefined) return false;
  const windows = windowsOf(state);
  return number <= newestOf(windows) - keptOf(window) || stateIn(windows, number) === null;
};

/**
 * Returns the counter's value at a moment; undefined where it has none (min, max, avg and latest of nothing),
 * or where the window is no longer known.
 */
export const readCounter = (
  counter: Counter,
  state: CounterState | undefined,
  moment: Moment,
): number | undefined => {
  const { aggregate, window } = counter;
  const number = numberAt(window, moment);
  if (number === undefined) {
    if (isBefore(counter, moment)) return emptyValue(aggregate);
    return aggregateValue(aggregate, state as AggregateState | undefined);
  }
  const windows = windowsOf(state);
  if (window.type === "ROLLING") return readBuckets(aggregate, windows, number);
  if (number <= newestOf(windows) - WINDOWS_KEPT) return undefined;
  const found = stateIn(windows, number);
  return found === null ? undefined : aggregateValue(aggregate, found);
};

const readBuckets = (aggregate: Aggregate, windows: Windows, number: number): number | undefined => {
  // Some of the window's values may have been evicted.
  if (number - ROLLING_BUCKETS <= newestOf(windows) - BUCKETS_KEPT) return undefined;
  const within = windows.filter(([bucket]) => bucket <= number && bucket >= number - ROLLING_BUCKETS);
  if (aggregate === "distinct") {
    return within.reduce((sum, [, state]) => sum + String(state).length / HASH_LENGTH, 0);
  }
  const state = within.reduce<AggregateState | undefined>(
    (sum, [, next]) => mergeStates(aggregate, sum, next ?? undefined),
    undefined,
  );
  return aggregateValue(aggregate, state);
};

const stateIn = (windows: Windows, number: number): AggregateState | null | undefined =>
  windows.findLast(([one]) => one === number)?.[1];

/** `undefined` removes a window. */
const withWindow = (windows: Windows, number: number, state: AggregateState | undefined): Windows => {
  const at = windows.findLastIndex(([one]) => one < number) + 1;
  const isThere = windows[at]?.[0] === number;
  return windows.toSpliced(at, isThere ? 1 : 0, ...(state === undefined ? [] : [[number, state] as const]));
};

const keepNewest = ({ aggregate, window }: Counter, windows: Windows): Windows => {
  const oldest = newestOf(windows) - keptOf(window) + 1;
  const kept = windows[0]![0] < oldest ? windows.filter(([number]) => number >= oldest) : windows;
  return aggregate === "distinct" ? keepHashes(kept) : kept;
};

/** Keeps the newest windows whose values fit; an older one is marked as no longer known. */
const keepHashes = (windows: Windows): Windows => {
  let room = DISTINCT_KEPT * HASH_LENGTH;
  return windows
    .toReversed()
    .map(([number, state]): Counted => {
      room -= state === null ? 0 : String(state).length;
      return [number, room < 0 ? null : state];
    })
    .toReversed();
};

/**
 * Adds to the distinct values of a rolling window: each is kept in its latest bucket, and the ones seen
 * longest ago are evicted beyond DISTINCT_MAX.
 */
const addToBuckets = (windows: Windows, value: string, number: number): Windows => {
  const seen = windows.find(([, state]) => holdsHash(String(state), value));
  if (seen && seen[0] >= number) return windows;
  const without = seen ? withWindow(windows, seen[0], withoutHash(String(seen[1]), value)) : windows;
  const inBucket = stateIn(without, number) ?? "";
  const oldest = Math.max(newestOf(windows), number) - BUCKETS_KEPT + 1;
  const kept = withWindow(without, number, `${String(inBucket)}${value}`).filter(([n]) => n >= oldest);
  return trimHashes(kept);
};

const withoutHash = (hashes: string, value: string): string | undefined => {
  const left = hashesOf(hashes).filter((one) => one !== value);
  return left.length === 0 ? undefined : left.join("");
};

const trimHashes = (windows: Windows): Windows => {
  let over = windows.reduce((sum, [, state]) => sum + String(state).length, 0) - DISTINCT_MAX * HASH_LENGTH;
  if (over <= 0) return windows;
  return windows.flatMap(([number, state]): Counted[] => {
    const left = String(state).slice(Math.max(0, over));
    over -= String(state).length - left.length;
    return left === "" ? [] : [[number, left]];
  });
};

/**
 * Removes a sample from the window of its time; a window that is no longer kept is unchanged. Check
 * `isSubtractable` first.
 */
export const subtractFromCounter = (
  counter: Counter,
  state: CounterState | undefined,
  sample: Sample,
  moment: Moment,
): CounterState | undefined => {
  const { aggregate, window } = counter;
  if (state === undefined || isBefore(counter, moment)) return state;
  const number = numberAt(window, moment);
  if (number === undefined) return subtractSample(aggregate, state as AggregateState, sample);
  const windows = windowsOf(state);
  const old = stateIn(windows, number);
  if (old === undefined || old === null) return state;
  return withWindow(windows, number, subtractSample(aggregate, old, sample));
};

/** Merges the counters of two players: values are added, joined or compared, by the aggregate. */
export const mergeCounters = (
  counter: Counter,
  a: CounterState | undefined,
  b: CounterState | undefined,
): CounterState | undefined => {
  if (a === undefined || b === undefined) return a ?? b;
  const { aggregate, window } = counter;
  if (window.type !== "CALENDAR" && window.type !== "ROLLING")
    return mergeStates(aggregate, a as AggregateState, b as AggregateState);
  if (aggregate === "distinct" && window.type === "ROLLING") {
    const samples = windowsOf(b).flatMap(([n, state]) => hashesOf(String(state)).map((h) => [n, h] as const));
    return samples.reduce((into, [number, value]) => addToBuckets(into, value, number), windowsOf(a));
  }
  const merged = windowsOf(b).reduce((into, [number, state]) => {
    const old = stateIn(into, number);
    if (old === null || state === null) return markUnknown(into, number);
    return withWindow(into, number, mergeStates(aggregate, old, state));
  }, windowsOf(a));
  return keepNewest(counter, merged);
};

const markUnknown = (windows: Windows, number: number): Windows =>
  [...windows.filter(([n]) => n !== number), [number, null] as const].toSorted(([a], [b]) => a - b);

export const EVENT_TYPES_MAX = 20;
const MINUTE_SECONDS = 60;
const YEAR_SECONDS = 31_536_000;

const Source = EventPattern.refine(canTriggerRules, "is not an event type of players");

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
      z.strictObject({ type: z.literal("SINCE"), at: IsoTime }),
    ],
    { error: "must have a type of LIFETIME, CALENDAR, ROLLING or SINCE" },
  )
  .meta({ id: "MetricWindow" });

const metricFields = {
  eventTypes: z.array(Source).min(1).max(EVENT_TYPES_MAX),
  filter: Filter.optional().describe("Which of these events count"),
  aggregate: z.enum(AGGREGATES),
  property: Path.optional().describe("The aggregated property: required by all aggregates but count"),
};

/** Zod check of whether an aggregate has the property that it needs. */
export const checkProperty = (
  { aggregate, property }: { aggregate: string; property?: string | undefined },
  context: z.RefinementCtx,
): void => {
  const refuse = (message: string) => context.addIssue({ code: "custom", path: ["property"], message });
  if (aggregate === "count" && property !== undefined) refuse("count takes no property");
  if (aggregate !== "count" && property === undefined) refuse(`${aggregate} needs a property`);
};

/** A counter of a player's events whose window is determined elsewhere, such as by a streak. */
export const WindowlessMetric = z
  .strictObject(metricFields)
  .superRefine(checkProperty)
  .meta({ id: "WindowlessMetric" });
export type WindowlessMetric = z.output<typeof WindowlessMetric>;

/**
 * A counter of a player's events: all of them, or those of a local calendar window, of a span of seconds, or
 * from a moment on.
 */
export const Metric = z
  .strictObject({ ...metricFields, window: MetricWindow.default({ type: "LIFETIME" }) })
  .superRefine(checkProperty)
  .meta({ id: "Metric" });
export type Metric = z.output<typeof Metric>;

const isPart = (value: unknown): value is object => value !== null && typeof value === "object";

/**
 * Returns the JSON text of a value with sorted keys, so that the order of keys in a document does not matter.
 * Lists of literals, which make up large filters, are serialised in one go.
 */
const canonical = (value: object): string => {
  if (Array.isArray(value))
    return value.some(isPart) ? `[${value.map(canonicalItem).join(",")}]` : JSON.stringify(value);
  const fields = Object.entries(value).filter(([, inner]) => inner !== undefined);
  const sorted = fields.toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `{${sorted.map(([name, inner]) => `${JSON.stringify(name)}:${canonicalItem(inner)}`).join(",")}}`;
};

const canonicalItem = (value: unknown): string => (isPart(value) ? canonical(value) : JSON.stringify(value));

const METRIC_ID_LENGTH = 11;

const metricIds = new WeakMap<Metric, string>();

/** Returns a short id that is equal for metrics that count the same. Computed once for each. */
export const metricId = (metric: Metric): string => {
  const known = metricIds.get(metric);
  if (known !== undefined) return known;
  const id = workOutId(metric);
  metricIds.set(metric, id);
  return id;
};

const workOutId = (metric: Metric): string => {
  const { eventTypes, window, ...rest } = metric;
  const sinceMs = window.type === "SINCE" ? { at: Date.parse(window.at) } : {};
  const types = [...new Set(eventTypes)].toSorted((a, b) => (a < b ? -1 : 1));
  const text = canonical({ ...rest, eventTypes: types, window: { ...window, ...sinceMs } });
  return hash("sha256", text, "base64url").slice(0, METRIC_ID_LENGTH);
};

/** A counter of a player's events, compiled for evaluation. */
export type CompiledMetric = Counter & {
  /** Key of the player's state in `player.doc.c`; equal metrics share one. */
  id: string;
  definition: Metric;
  /** Whose time zone a CALENDAR window uses. */
  zone: "PLAYER" | "PROJECT";
  /** Returns the contribution of an event of one of the metric's types; undefined when it does not count. */
  sampleOf(context: EventContext): Sample | undefined;
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

const compiled = new WeakMap<Metric, CompiledMetric>();

/** Compiles a metric, once for each. @param spender the first definition that reads it */
export const compileMetric = (metric: Metric, spender?: Spender): CompiledMetric => {
  const known = compiled.get(metric) ?? prepare(metric);
  compiled.set(metric, known);
  return spender ? { ...known, spender } : known;
};

const prepare = (metric: Metric): CompiledMetric => ({
  id: metricId(metric),
  spender: undefined,
  definition: metric,
  aggregate: metric.aggregate,
  window: windowOf(metric),
  zone: metric.window.type === "CALENDAR" ? metric.window.timezone : "PLAYER",
  sampleOf: compileSample(metric),
});

/** The metrics of a project by event type, and by id. */
export type MetricIndex = {
  forEvent(eventType: string): readonly CompiledMetric[];
  byId: ReadonlyMap<string, CompiledMetric>;
};

/**
 * Indexes the metrics that a project's rules, badges and segments read, in slices; equal ones share one counter.
 */
export function* metricPieces(
  metrics: readonly Metric[],
  spenderOf: (metric: Metric) => Spender | undefined = () => undefined,
): Steps<MetricIndex> {
  const byId = new Map<string, CompiledMetric>();
  for (const metric of metrics) {
    yield;
    const id = metricId(metric);
    if (!byId.has(id)) byId.set(id, compileMetric(metric, spenderOf(metric)));
  }
  const listeners = [...byId.values()].map((metric) => ({
    metric,
    patterns: metric.definition.eventTypes,
  }));
  const listening = createTypeIndex(listeners, (found) => found.map(({ metric }) => metric));
  return { forEvent: listening, byId };
}
