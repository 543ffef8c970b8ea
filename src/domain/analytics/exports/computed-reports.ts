import type { Work } from "../../kernel/work.ts";
import type { Asked } from "../ask.ts";
import { comparedWith } from "../comparison.ts";
import type { Breakdown } from "../event-series.ts";
import { type MetricView, type OverviewQuery, readOverview } from "../overview.ts";
import { SEGMENT_GROUPS, type SegmentGroup } from "../segment-days.ts";
import { readSegments } from "../segments.ts";
import { readBreakdown, readFilters, readMetric } from "../trend-query.ts";
import { planTrends, readTrends, type TrendQuery, type TrendSeries } from "../trends.ts";
import type { ReportColumn, Row } from "./columns.ts";
import { computed } from "./report.ts";

const text = (name: string): ReportColumn => ({ name, type: "text" });
const number = (name: string): ReportColumn => ({ name, type: "number" });

const metricRow = (metric: string, view: MetricView): Row => ({ metric, ...view });

/** The metrics of an overview: a row each, and one for each currency. */
export const overviewReport = computed({
  columns: [
    text("metric"),
    ...["value", "previous", "change", "changePct", "changePoints"].map(number),
    text("trend"),
    text("goodDirection"),
  ],
  check: ({ frame, range }: Asked, query: OverviewQuery) => void comparedWith(frame, range, query),
  read: (work: Work, asked: Asked, query: OverviewQuery) => readOverview(work, asked, query),
  rows: ({ metrics: { currencyGranted, ...metrics } }) => [
    ...Object.entries(metrics).map(([name, view]) => metricRow(name, view)),
    ...Object.entries(currencyGranted).map(([key, view]) => metricRow(`currencyGranted:${key}`, view)),
  ],
});

/** The parameters of GET /analytics/trends. */
type TrendParameters = Omit<TrendQuery, "metrics" | "breakdown" | "cumulative" | "types" | "filters"> & {
  metric: readonly string[];
  breakdown?: string | undefined;
  cumulative?: boolean | undefined;
};

/** Returns the points of series, a row each. */
function* trendRows(series: readonly TrendSeries[]): Generator<Row> {
  for (const { metric, breakdown, points, previous } of series) {
    for (const [i, point] of points.entries()) {
      const before = previous?.points[i];
      yield {
        metric,
        breakdown,
        ...point,
        start: Date.parse(point.start),
        partial: point.partial ?? false,
        previousDate: before?.date,
        previousValue: before?.value,
      };
    }
  }
}

const asTrendQuery = (query: TrendParameters): TrendQuery => {
  const breakdown: Breakdown | undefined = readBreakdown(query.breakdown);
  return {
    ...query,
    metrics: query.metric.map((name) => ({ text: name, metric: readMetric(name) })),
    breakdown,
    cumulative: query.cumulative ?? false,
    ...readFilters(query),
  };
};

export const trendReport = computed({
  columns: [
    text("metric"),
    text("breakdown"),
    text("date"),
    { name: "start", type: "time" },
    number("value"),
    { name: "complete", type: "boolean" },
    { name: "partial", type: "boolean" },
    text("previousDate"),
    number("previousValue"),
  ],
  check: (asked: Asked, query: TrendParameters) => void planTrends(asked, asTrendQuery(query)),
  read: (work: Work, asked: Asked, query: TrendParameters) => readTrends(work, asked, asTrendQuery(query)),
  rows: ({ series }) => trendRows(series),
});

type SegmentParameters = { group: SegmentGroup | "all" };

export const segmentReport = computed({
  columns: [
    text("group"),
    text("segment"),
    text("label"),
    text("definition"),
    ...["players", "share", "previousPlayers", "change", "avgXp", "avgLevel"].map(number),
  ],
  read: (work: Work, asked: Asked, { group }: SegmentParameters) =>
    readSegments(work, asked, group === "all" ? SEGMENT_GROUPS : [group]),
  rows: ({ groups }) =>
    groups.flatMap(({ key: name, segments }) =>
      segments.map(({ key: segment, ...rest }) => ({ group: name, segment, ...rest })),
    ),
});
