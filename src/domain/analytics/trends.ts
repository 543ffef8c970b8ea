import { z } from "zod";
import type { Asked } from "./ask.ts";
import {
  type Change,
  changeOf,
  type Compared,
  comparedWith,
  type ComparisonQuery,
  pointsOf,
  rounded,
  showComparison,
} from "./comparison.ts";
import { EFFECTS } from "./events.ts";
import {
  measureBuckets,
  measureNewcomers,
  METRIC_NAMES,
  type MetricName,
  METRICS,
  type Part,
  type Whole,
} from "./measure-buckets.ts";
import { type ActiveEvents, measureActivity, sumOf } from "./measure-players.ts";
import type { PropertyFilter } from "./properties.ts";
import {
  type Buckets,
  calendarBuckets,
  dateOfDay,
  DAY_MS,
  dayBuckets,
  daysOf,
  type Frame,
  hourBuckets,
  hourLabel,
  type Interval,
  POINTS_MAX,
  type Range,
  tooManyPoints,
  untilAsOf,
} from "./range.ts";
import {
  type Breakdown,
  type Counted,
  type EventSeries,
  type Measure,
  readEventSeries,
  type TrendMetric,
} from "./trend-query.ts";
import { invalid } from "../kernel/errors.ts";
import { mapInSlices } from "../kernel/slices.ts";
import type { Work } from "../kernel/work.ts";

export type OverviewQuery = ComparisonQuery & { activeEvents?: ActiveEvents };

/** A metric as answers show it. */
export type MetricView = {
  value: number | null;
  goodDirection: "up" | "down";
  /** A value for each local day. */
  series?: number[];
} & Partial<Change>;

/** What is measured by days and of the range at once; of players, those of two ranges are. */
const IN_ONE: ReadonlySet<Part> = new Set(["effects", "quests"]);

/** What is measured of a range, with a value for each of its local days where a metric has such. */
type Measured = Whole & { daily: Readonly<Record<string, number[]>> };

/** The local days of a range, the first of which begins with it. */
const daysWithin = (frame: Frame, { startMs, firstDay, lastDay }: Range): Buckets => {
  const days = dayBuckets(frame, firstDay, lastDay);
  return { ...days, startsMs: days.startsMs.with(0, startMs) };
};

type Ranged = { work: Work; frame: Frame; ranges: readonly Range[] };
type Happened = { wholes: Whole[]; total: Whole };

/**
 * Measures what happened in ranges, by day: at once where the second one ends as the first one begins, or less
 * than a day before. Its own days end with those that had begun.
 */
const measureHappened = async ({ work, frame, ranges }: Ranged): Promise<Happened[]> => {
  const days = ranges.map((one) => daysWithin(frame, one));
  const [range, before] = ranges.map((one) => untilAsOf(frame, one));
  const gapMs = before && before.endMs > before.startMs ? range!.startMs - before.endMs : -1;
  if (gapMs < 0 || gapMs >= DAY_MS) {
    const happened: Happened[] = [];
    for (const [i, one] of ranges.entries()) {
      const { wholes, totals } = await measureBuckets({ work, frame, range: one, buckets: days[i]! }, IN_ONE);
      happened.push({ wholes, total: totals[0]! });
    }
    return happened;
  }
  const begun = days[1]!.startsMs.filter((ms) => ms < before!.endMs);
  const startsMs = [...new Set([...begun, before!.endMs, ...days[0]!.startsMs])];
  const first = startsMs.length - days[0]!.startsMs.length;
  const both = { ...range!, startMs: before!.startMs, firstDay: before!.firstDay };
  const buckets = { ...days[0]!, startsMs };
  const parts = [...new Set([0, begun.length, first])];
  const { wholes, totals } = await measureBuckets({ work, frame, range: both, buckets, parts }, IN_ONE);
  return [
    { wholes: wholes.slice(first), total: totals.at(-1)! },
    { wholes: wholes.slice(0, begun.length), total: totals[0]! },
  ];
};

/** Measures ranges: everything that an overview shows. */
const measureRanges = async (
  { work, frame, ranges }: Ranged,
  activeEvents: ActiveEvents,
): Promise<Measured[]> => {
  const asked = ranges.map((range) => ({
    buckets: daysWithin(frame, range),
    endMs: untilAsOf(frame, range).endMs,
  }));
  const newcomers = await measureNewcomers(work, frame, asked);
  const happened = await measureHappened({ work, frame, ranges });
  const measured: Measured[] = [];
  for (const [i, range] of ranges.entries()) {
    const { before, fresh: newPlayers } = newcomers[i]!;
    const fresh = sumOf(newPlayers);
    const activity = await measureActivity({ work, frame, range, activeEvents });
    // Whoever is new is active too, unless only some events count.
    const returning = activity.returning ?? activity.active - fresh;
    const { wholes, total } = happened[i]!;
    const sums = EFFECTS.map((name) => [name, wholes.map(({ effects }) => effects.sums[name])]);
    const { dailyActive: activePlayers, dailyEvents: events } = activity;
    measured.push({
      ...total,
      activity,
      windows: activity,
      newcomers: { fresh, total: before + fresh },
      returning,
      daily: { activePlayers, newPlayers, events, ...Object.fromEntries(sums) },
    });
  }
  return measured;
};

/**
 * Reads the overview of a range: how players did, beside the range that it is compared with.
 * @throws DomainError VALIDATION_ERROR for a comparison that is none
 */
export const readOverview = async (work: Work, { frame, range }: Asked, query: OverviewQuery) => {
  const compared = comparedWith(frame, range, query);
  const ranges = compared ? [range, compared.range] : [range];
  const [now, before] = await measureRanges({ work, frame, ranges }, query.activeEvents);
  return {
    comparison: compared ? showComparison(compared) : null,
    metrics: { ...showMetrics(now!, before), currencyGranted: showCurrencies(now!, before) },
  };
};

const showMetrics = (now: Measured, before: Whole | undefined): Record<MetricName, MetricView> =>
  Object.fromEntries(
    METRIC_NAMES.map((name) => {
      const { unit, goodDirection, read } = METRICS[name];
      const value = read(now);
      const change = unit === "rate" ? pointsOf : changeOf;
      const series = now.daily[name];
      return [
        name,
        {
          value,
          ...(before ? change(value, read(before)) : {}),
          goodDirection,
          ...(series ? { series } : {}),
        },
      ];
    }),
  ) as Record<MetricName, MetricView>;

const showCurrencies = (now: Whole, before: Whole | undefined): Record<string, MetricView> => {
  const keys = [now, ...(before ? [before] : [])].flatMap(({ effects }) => Object.keys(effects.currencies));
  const read = ({ effects }: Whole, key: string): number => effects.currencies[key] ?? 0;
  return Object.fromEntries(
    [...new Set(keys)].toSorted().map((key) => [
      key,
      {
        value: read(now, key),
        ...(before ? changeOf(read(now, key), read(before, key)) : {}),
        goodDirection: "up",
      },
    ]),
  );
};

/** Series of one answer, over all metrics. */
export const METRICS_MAX = 10;
/** Points of one answer, over all series and those that they are compared with. */
const ANSWER_POINTS_MAX = 50_000;

export type TrendQuery = ComparisonQuery & {
  metrics: readonly { text: string; metric: TrendMetric }[];
  interval: Interval;
  breakdown?: Breakdown | undefined;
  limit: number;
  cumulative: boolean;
  types?: readonly string[] | undefined;
  filters: readonly PropertyFilter[];
};

export const TrendPoint = z
  .object({
    date: z.string().meta({ description: "Local; of an hour as 2026-01-31T05:00", example: "2026-01-31" }),
    start: z.iso.datetime(),
    value: z.number().nullable(),
    complete: z.boolean().meta({ description: "Whether it was over at asOf" }),
    partial: z.literal(true).optional().meta({ description: "A week or month that sticks out of the range" }),
  })
  .meta({ id: "AnalyticsPoint" });
export type TrendPoint = z.output<typeof TrendPoint>;

export const TrendSeries = z.object({
  metric: z.string(),
  breakdown: z.string().nullable().meta({ description: "(none): without a value; (other): all the rest" }),
  total: z.number().nullable().meta({ description: "Of the range: players count once" }),
  points: z.array(TrendPoint),
  previous: z.object({ total: z.number().nullable(), points: z.array(TrendPoint) }).optional(),
});
export type TrendSeries = z.output<typeof TrendSeries>;

/** The buckets of a range, clipped to it, and what each point of a series says beside its value. */
type Labelled = { buckets: Buckets; labels: Omit<TrendPoint, "value">[] };

const bucketsOf = (frame: Frame, interval: Interval, range: Range): Labelled => {
  const { startMs, endMs } = range;
  const whole: Buckets & { days?: number[] } =
    interval === "hour" ? hourBuckets(frame, range) : calendarBuckets(frame, interval, range);
  if (whole.startsMs.length > POINTS_MAX) throw tooManyPoints();
  const ends = [...whole.startsMs.slice(1), whole.endMs];
  const kept = whole.startsMs.flatMap((start, i) => {
    const end = ends[i]!;
    if (end <= startMs || start >= endMs) return [];
    const date = whole.days ? dateOfDay(whole.days[i]!) : hourLabel(frame.timezone, start);
    return [{ start: Math.max(start, startMs), date, isPartial: start < startMs || end > endMs }];
  });
  return {
    buckets: { startsMs: kept.map(({ start }) => start), endMs },
    labels: kept.map(({ start, date, isPartial }, i) => ({
      date,
      start: new Date(start).toISOString(),
      complete: (kept[i + 1]?.start ?? endMs) <= frame.asOfMs,
      ...(isPartial ? { partial: true } : {}),
    })),
  };
};

/** The numbers of a series, by bucket, and of the range. */
type Numbers = { key: string | null; points: (number | null)[]; total: number | null };

type Asking = { work: Work; frame: Frame; range: Range; buckets: Buckets; query: TrendQuery };

/** How a metric is counted from events alone; undefined for one that is not. */
const countedBy = (metric: TrendMetric): { counted: Counted; measure: Measure } | undefined => {
  if (metric.kind === "event") return { counted: { types: [metric.eventType] }, measure: "events" };
  if (metric.kind === "sum")
    return { counted: { types: [metric.eventType], sumOf: metric.path }, measure: "sum" };
  if (metric.kind !== "overview") return undefined;
  if (metric.name === "events") return { counted: {}, measure: "events" };
  return metric.name === "activePlayers" ? { counted: {}, measure: "players" } : undefined;
};

const needsEvents = ({ breakdown, types, filters }: TrendQuery): boolean =>
  breakdown !== undefined || types !== undefined || filters.length > 0;

/** @throws DomainError VALIDATION_ERROR where a metric that is not of events is broken down or filtered */
const checkMetrics = (query: TrendQuery): void => {
  const wrong = query.metrics.find(({ metric }) => countedBy(metric) === undefined);
  if (wrong && needsEvents(query))
    throw invalid(
      query.breakdown === undefined ? "filter" : "breakdown",
      `${wrong.text} is not counted from events; what can be: events, activePlayers, event: and sum:`,
    );
};

const both = (
  given: readonly string[] | undefined,
  wanted: readonly string[] | undefined,
): readonly string[] | undefined =>
  given === undefined || wanted === undefined
    ? (given ?? wanted)
    : given.filter((one) => wanted.includes(one));

const readFromEvents = async (
  { work, frame, range, buckets, query }: Asking,
  { counted, measure }: { counted: Counted; measure: Measure },
): Promise<Numbers[]> => {
  const { breakdown, limit, types, filters } = query;
  const series: EventSeries[] = await readEventSeries(work, frame, {
    buckets,
    startMs: range.startMs,
    untilMs: untilAsOf(frame, range).endMs,
    counted: { ...counted, types: both(counted.types, types), filters },
    measure,
    breakdown,
    limit,
  });
  return series.map(({ key, points, total }) => ({ key: breakdown ? key : null, points, total }));
};

const read = (metric: Extract<TrendMetric, { kind: "overview" | "currency" }>, whole: Whole): number | null =>
  metric.kind === "currency" ? (whole.effects.currencies[metric.key] ?? 0) : METRICS[metric.name].read(whole);

const needsOf = (metrics: readonly TrendMetric[]): ReadonlySet<Part> => {
  const parts = metrics.flatMap((metric) =>
    metric.kind === "overview"
      ? METRICS[metric.name].of
      : metric.kind === "currency"
        ? ["effects" as const]
        : [],
  );
  return new Set(parts);
};

/** The numbers of every metric over one range, in the order of the query. */
const readNumbers = async (asking: Asking): Promise<Numbers[][]> => {
  const { work, frame, range, buckets, query } = asking;
  const isOfEvents = (metric: TrendMetric): boolean =>
    countedBy(metric) !== undefined && (metric.kind !== "overview" || needsEvents(query));
  const others = query.metrics.map(({ metric }) => metric).filter((metric) => !isOfEvents(metric));
  const needs = needsOf(others);
  const { wholes, totals } = await measureBuckets({ work, frame, range, buckets }, needs);
  const numbers: Numbers[][] = [];
  for (const { metric } of query.metrics) {
    if (isOfEvents(metric)) numbers.push(await readFromEvents(asking, countedBy(metric)!));
    else {
      const known = metric as Extract<TrendMetric, { kind: "overview" | "currency" }>;
      numbers.push([
        { key: null, points: wholes.map((whole) => read(known, whole)), total: read(known, totals[0]!) },
      ]);
    }
  }
  return numbers;
};

const summed = (points: readonly (number | null)[]): (number | null)[] => {
  let sum = 0;
  return points.map((value) => (sum = rounded(sum + (value ?? 0), 6)));
};

const showPoints = ({ labels }: Labelled, points: readonly (number | null)[]): TrendPoint[] =>
  labels.map(({ date, start, ...more }, i) => ({ date, start, value: points[i] ?? null, ...more }));

/** @throws DomainError VALIDATION_ERROR where an answer could have more points than it may */
const checkPoints = ({ metrics, breakdown, limit }: TrendQuery, buckets: readonly number[]): void => {
  // Beside the values of a breakdown there may be one series for all others.
  const series = metrics.length * (breakdown === undefined ? 1 : limit + 1);
  const points = buckets.reduce((sum, count) => sum + series * count, 0);
  if (points <= ANSWER_POINTS_MAX) return;
  const most = `this could give ${points} points, and an answer has at most ${ANSWER_POINTS_MAX}`;
  throw invalid(
    "interval",
    `${most}: take a longer interval, a shorter range, fewer metrics or a lower limit`,
  );
};

/** The fewest buckets of a day. */
const BUCKETS_A_DAY: Readonly<Record<Interval, number>> = { hour: 23, day: 1, week: 1 / 7, month: 1 / 31 };

/** Metrics whose values over buckets add up to something that means something. */
const isSummable = (metric: TrendMetric): boolean =>
  metric.kind !== "overview" || METRICS[metric.name].unit === "count";

/** @throws DomainError VALIDATION_ERROR for a metric of days by the hour */
const checkInterval = ({ interval, metrics }: TrendQuery): void => {
  const ofDays = ({ metric }: TrendQuery["metrics"][number]): boolean =>
    metric.kind === "overview" && METRICS[metric.name].of.some((part) => part === "windows");
  const wrong = interval === "hour" ? metrics.find(ofDays) : undefined;
  if (wrong) throw invalid("interval", `must be day, week or month: ${wrong.text} is of whole days`);
};

/** @throws DomainError VALIDATION_ERROR for a sum over values that cannot be added */
const checkCumulative = ({ cumulative, metrics }: TrendQuery): void => {
  const wrong = cumulative ? metrics.find(({ metric }) => !isSummable(metric)) : undefined;
  if (wrong) throw invalid("cumulative", `${wrong.text} cannot be added up`);
};

type Planned = { compared: Compared | undefined; labelled: Labelled; before: Labelled | undefined };

/** Plans what is read of a question. @throws DomainError VALIDATION_ERROR */
export const planTrends = ({ frame, range }: Asked, query: TrendQuery): Planned => {
  checkMetrics(query);
  checkInterval(query);
  checkCumulative(query);
  const compared = comparedWith(frame, range, query);
  const ranges = compared ? [range, compared.range] : [range];
  // Before the buckets are made, which takes time.
  const least = ranges.map((one) => Math.floor(daysOf(one) * BUCKETS_A_DAY[query.interval]));
  checkPoints(query, least);
  const [labelled, before] = ranges.map((one) => bucketsOf(frame, query.interval, one));
  checkPoints(query, before ? [labelled!.labels.length, before.labels.length] : [labelled!.labels.length]);
  return { compared, labelled: labelled!, before };
};

/**
 * Reads series of metrics over a range, each beside that of the compared range. Every bucket is there; the
 * total of a metric that counts players is of the range, and not the sum of its points.
 * @throws DomainError VALIDATION_ERROR
 */
export const readTrends = async (work: Work, { frame, range }: Asked, query: TrendQuery) => {
  const { compared, labelled, before } = planTrends({ frame, range }, query);
  const numbers = await readNumbers({ work, frame, range, buckets: labelled.buckets, query });
  const beforeNumbers =
    compared && before
      ? await readNumbers({ work, frame, range: compared.range, buckets: before.buckets, query })
      : undefined;
  const shown = (points: readonly (number | null)[]) => (query.cumulative ? summed(points) : points);
  const named = query.metrics.flatMap(({ text }, m) =>
    numbers[m]!.map((own) => ({
      text,
      own,
      other: beforeNumbers?.[m]?.find(({ key }) => key === own.key),
    })),
  );
  const empty = before?.labels.map(() => 0) ?? [];
  const series = await mapInSlices(named, ({ text, own: { key, points, total }, other }): TrendSeries => ({
    metric: text,
    breakdown: key,
    total,
    points: showPoints(labelled, shown(points)),
    ...(before
      ? {
          previous: {
            total: other === undefined ? 0 : other.total,
            points: showPoints(before, shown(other?.points ?? empty)),
          },
        }
      : {}),
  }));
  return { interval: query.interval, comparison: compared ? showComparison(compared) : null, series };
};
