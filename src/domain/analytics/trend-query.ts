import { type RawBuilder, sql } from "kysely";
import { eventsOf } from "./events.ts";
import { METRIC_NAMES, type MetricName } from "./measure-buckets.ts";
import { NONE, OTHER, type PropertyFilter, propertyFloat, textAt, whereOf } from "./properties.ts";
import { bucketOf, type Buckets, type Frame } from "./range.ts";
import { areDivisible, eachRolledPlayer } from "./rollups/players.ts";
import { openRolled } from "./rollups/rolled.ts";
import { invalid } from "../kernel/errors.ts";
import type { Work } from "../kernel/work.ts";

/** By what a series is broken down. A path leads through objects of an event's properties. */
export type Breakdown = { by: "eventType" } | { by: "segment" } | { by: "property"; path: readonly string[] };

/** Which events are counted, and what of each is summed. */
export type Counted = {
  types?: readonly string[] | undefined;
  filters?: readonly PropertyFilter[];
  /** A property that is a number, to be summed. */
  sumOf?: readonly string[];
};

/** What makes a series long or short. */
export type Measure = "events" | "players" | "sum";

const keyOf = (breakdown: Breakdown | undefined): RawBuilder<unknown> => {
  if (breakdown === undefined) return sql`''::text`;
  if (breakdown.by === "eventType") return sql`e.event_type`;
  return breakdown.by === "segment"
    ? sql`coalesce(m.segment_key, ${NONE})`
    : sql`coalesce(${textAt(breakdown.path)}, ${NONE})`;
};

/** Of one value of the breakdown: its numbers by bucket, and of all buckets together. */
export type EventSeries = { key: string; points: number[]; total: number };

type Row = {
  key: string;
  is_other: boolean;
  d: number | null;
  n: number;
  players: number;
  sum: number | null;
};

const MEASURES: Readonly<Record<Measure, (row: Row) => number>> = {
  events: ({ n }) => n,
  players: ({ players }) => players,
  // Adding fractions in double precision leaves digits behind the fifteenth that no value had.
  sum: ({ sum }) => (sum === null || Number.isInteger(sum) ? (sum ?? 0) : Number(sum.toPrecision(15))),
};
const RANKED_BY: Readonly<Record<Measure, string>> = {
  events: "sum(n)",
  players: "count(distinct player_id)",
  sum: "coalesce(sum(v), 0)",
};

type Asking = {
  buckets: Buckets;
  startMs: number;
  untilMs: number;
  counted: Counted;
  measure: Measure;
  breakdown?: Breakdown | undefined;
  /** Values of the breakdown with a series of their own: those with most; the rest are `(other)`. */
  limit: number;
};

/** Counts events, or players, of types by bucket, from rollups; undefined where they do not know it. */
const seriesFromRollups = async (
  work: Work,
  frame: Frame,
  { buckets, startMs, untilMs, counted, measure, breakdown }: Asking,
): Promise<EventSeries | undefined> => {
  const { types, filters = [], sumOf } = counted;
  if (breakdown || filters.length > 0 || sumOf) return undefined;
  // The first bucket may begin before the range does.
  const areCounted = measure !== "players";
  const stretches = { cutsMs: [startMs, ...buckets.startsMs.slice(1)], untilMs, types, areCounted };
  if (!areDivisible(stretches)) return undefined;
  const rolled = await openRolled(work, frame);
  if (!rolled) return undefined;
  const points = buckets.startsMs.map(() => 0);
  let total = 0;
  await eachRolledPlayer(work, rolled, stretches, ({ size, stretches: those, counts }) => {
    if (measure === "players" && size > 0) total++;
    for (let i = 0; i < size; i++) {
      const by = measure === "players" ? 1 : counts[i]!;
      points[those[i]!]! += by;
      if (measure !== "players") total += by;
    }
  });
  return { key: "", points, total };
};

/** Counts events by bucket and value of a breakdown. */
export const readEventSeries = async (work: Work, frame: Frame, asking: Asking): Promise<EventSeries[]> => {
  const known = await seriesFromRollups(work, frame, asking);
  if (known) return [known];
  const { buckets, startMs, untilMs, counted, measure, breakdown, limit } = asking;
  const events = eventsOf(frame, {
    fromMs: startMs,
    untilMs,
    types: counted.types,
    where: whereOf(counted.filters ?? []),
  });
  const { rows } = await sql<Row>`
    with x as materialized (
      select ${keyOf(breakdown)} as key, ${bucketOf(buckets, sql`e.at`)} as d, e.player_id,
        count(*) as n, ${valueOf(counted)} as v
      from (${events}) e ${membersOf(frame, breakdown)} group by 1, 2, 3),
    t as (select key from x group by key order by ${sql.raw(RANKED_BY[measure])} desc, key limit ${limit}),
    y as (
      select case when t.key is null then '' else x.key end as key, t.key is null as is_other, x.d,
        x.player_id, x.n, x.v
      from x left join t using (key))
    select key, is_other, d, sum(n) as n, count(distinct player_id) as players, sum(v) as sum
    from y group by grouping sets ((key, is_other, d), (key, is_other))`.execute(work.db);
  return seriesOf(rows, { measure, length: buckets.startsMs.length, isBroken: breakdown !== undefined });
};

const valueOf = ({ sumOf }: Counted): RawBuilder<unknown> =>
  sumOf === undefined ? sql`null::float8` : sql`sum(${propertyFloat(sumOf)})`;

const membersOf = ({ projectId }: Frame, breakdown: Breakdown | undefined): RawBuilder<unknown> =>
  breakdown?.by === "segment"
    ? sql`left join player_segments m
        on m.project_id = ${projectId}::uuid and m.player_id = e.player_id`
    : sql``;

type Shape = { measure: Measure; length: number; isBroken: boolean };

/** The series of the rows, the longest first and the rest last; without a breakdown there is always one. */
const seriesOf = (rows: readonly Row[], { measure, length, isBroken }: Shape): EventSeries[] => {
  const read = MEASURES[measure];
  const empty = (key: string, isOther: boolean) => ({
    key,
    isOther,
    points: Array.from({ length }, () => 0),
    total: 0,
  });
  const series = new Map<string, ReturnType<typeof empty>>();
  for (const row of rows) {
    const id = `${row.is_other} ${row.key}`;
    const found = series.get(id) ?? empty(row.is_other ? OTHER : row.key, row.is_other);
    series.set(id, found);
    if (row.d === null) found.total = read(row);
    else found.points[row.d] = read(row);
  }
  if (series.size === 0 && !isBroken) series.set("", empty("", false));
  return [...series.values()]
    .toSorted(
      (a, b) => Number(a.isOther) - Number(b.isOther) || b.total - a.total || (a.key < b.key ? -1 : 1),
    )
    .map(({ key, points, total }) => ({ key, points, total }));
};

/** What a series counts. */
export type TrendMetric =
  | { kind: "overview"; name: MetricName }
  | { kind: "currency"; key: string }
  | { kind: "event"; eventType: string }
  | { kind: "sum"; eventType: string; path: readonly string[] };

const KNOWN = METRIC_NAMES.join(", ");

const PATH_MAX = 8;
const VALUES_MAX = 50;

const isMetricName = (text: string): text is MetricName => (METRIC_NAMES as readonly string[]).includes(text);

/** @throws DomainError VALIDATION_ERROR for a path that is too deep or has an empty part */
export const readPath = (field: string, text: string): string[] => {
  const path = text.split(".");
  if (path.length > PATH_MAX) throw invalid(field, `a path has at most ${PATH_MAX} parts`);
  if (path.some((part) => part === "")) throw invalid(field, "a path is made of names, such as match.score");
  return path;
};

const PROPERTY = "property:";

/** The path of a property that divides, with or without `property:`. @throws DomainError VALIDATION_ERROR */
export const readPropertyOf = (field: string, text: string): string[] =>
  readPath(field, text.startsWith(PROPERTY) ? text.slice(PROPERTY.length) : text);

/** `sum:quiz.score` sums the property score of quiz; `sum:quiz.done:score` is for other types with a dot. */
const readSum = (text: string): TrendMetric => {
  const at = text.includes(":") ? text.lastIndexOf(":") : text.indexOf(".");
  if (at < 1 || at === text.length - 1)
    throw invalid("metric", "must be sum:<eventType>.<property>, or sum:<eventType>:<property>");
  return { kind: "sum", eventType: text.slice(0, at), path: readPath("metric", text.slice(at + 1)) };
};

/** @throws DomainError VALIDATION_ERROR for a metric that is none */
export const readMetric = (text: string): TrendMetric => {
  if (isMetricName(text)) return { kind: "overview", name: text };
  const [kind, rest] = [text.slice(0, text.indexOf(":")), text.slice(text.indexOf(":") + 1)];
  if (rest !== "" && kind === "event") return { kind, eventType: rest };
  if (rest !== "" && kind === "currencyGranted") return { kind: "currency", key: rest };
  if (rest !== "" && kind === "sum") return readSum(rest);
  throw invalid(
    "metric",
    `must be currencyGranted:<key>, event:<eventType>, sum:<eventType>.<property>, or one of ${KNOWN}`,
  );
};

/** Reads metrics, each with its text. @throws DomainError VALIDATION_ERROR for one that is none */
export const readMetrics = (texts: readonly string[]): { text: string; metric: TrendMetric }[] =>
  texts.map((text) => ({ text, metric: readMetric(text) }));

/** @throws DomainError VALIDATION_ERROR for a breakdown that is none */
export const readBreakdown = (text: string | undefined): Breakdown | undefined => {
  if (text === undefined) return undefined;
  if (text === "eventType" || text === "segment") return { by: text };
  if (text.startsWith(PROPERTY) && text.length > PROPERTY.length)
    return { by: "property", path: readPropertyOf("breakdown", text) };
  throw invalid("breakdown", "must be eventType, segment or property:<path>");
};

const FILTER = /^filter\[(eventType|properties\.(.+))\]$/;

/** Whether a name is that of a filter: `filter[eventType]`, `filter[properties.team]`. */
export const isFilterName = (name: string): boolean => FILTER.test(name);

const valuesOf = (name: string, given: unknown): string[] => {
  const values = typeof given === "string" ? given.split(",").map((one) => one.trim()) : [];
  if (values.length === 0 || values.length > VALUES_MAX)
    throw invalid(name, `must have 1 to ${VALUES_MAX} values, separated by commas`);
  return values;
};

/** Reads the parameters of a query that are filters. @throws DomainError VALIDATION_ERROR */
export const readFilters = (
  query: Readonly<Record<string, unknown>>,
): { types?: string[]; filters: PropertyFilter[] } => {
  const filters: PropertyFilter[] = [];
  let types: string[] | undefined;
  for (const [name, given] of Object.entries(query)) {
    const match = FILTER.exec(name);
    if (!match) continue;
    const values = valuesOf(name, given);
    if (match[2] === undefined) types = values;
    else filters.push({ path: readPath(name, match[2]), values });
  }
  if (filters.length > PATH_MAX) throw invalid("filter", `at most ${PATH_MAX} properties are filtered`);
  return { ...(types ? { types } : {}), filters };
};
