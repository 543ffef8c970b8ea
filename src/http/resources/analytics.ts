import { z } from "zod";
import { COMPARISONS } from "../../domain/analytics/comparison.ts";
import { METRIC_NAMES } from "../../domain/analytics/measure-buckets.ts";
import { asSegmentsQuestion, asTrendQuery } from "../../domain/analytics/exports/columns.ts";
import { readFilters } from "../../domain/analytics/trend-query.ts";
import { METRICS_MAX, readOverview, readTrends, TrendSeries } from "../../domain/analytics/trends.ts";
import { INTERVALS } from "../../domain/analytics/range.ts";
import { listSegmentPlayers } from "../../domain/analytics/lists/list-segment.ts";
import { readSegments, SEGMENT_GROUPS } from "../../domain/analytics/segments.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";

import {
  answerQuestion,
  FrameFields,
  metricList,
  OverviewNumber,
  PlayersLink,
  playersLink,
  question,
  QuestionQuery,
  textList,
  withFilters,
} from "./analytics-fields.ts";
import { Flag } from "./bodies.ts";
import { Person } from "../../domain/kernel/events/shapes.ts";
import { Envelope } from "../../domain/analytics/ask.ts";

const EVENT_TYPES_MAX = 50;
/** Values of a breakdown with a series of their own. */
const SERIES_MAX = 100;

const ComparisonFields = z.object({
  compare: z
    .enum(COMPARISONS)
    .default("previous_period")
    .meta({ description: "previous_period: as many local days, directly before" }),
  compareFrom: z.string().max(40).optional().meta({ description: "With compare=custom, as from" }),
  compareTo: z.string().max(40).optional().meta({ description: "With compare=custom, as to" }),
});

const MetricBody = z
  .object({
    value: z.number().nullable().meta({ description: "null where there is nothing to divide by" }),
    previous: z.number().nullable().optional().meta({ description: "Of the compared range" }),
    change: z.number().nullable().optional(),
    changePct: z
      .number()
      .nullable()
      .optional()
      .meta({ description: "In per cent, with one decimal; null where it was 0 before" }),
    changePoints: z
      .number()
      .nullable()
      .optional()
      .meta({ description: "Of a rate, in place of change and changePct: percentage points" }),
    trend: z.enum(["up", "down", "flat", "new"]).nullable().optional(),
    goodDirection: z.enum(["up", "down"]),
    series: z.array(z.number()).optional().meta({ description: "A value for each local day of the range" }),
  })
  .meta({ id: "AnalyticsMetric" });

const ComparisonBody = z
  .object({
    mode: z.enum(COMPARISONS),
    from: z.iso.date(),
    to: z.iso.date(),
    start: z.iso.datetime(),
    end: z.iso.datetime(),
    partial: z.boolean().meta({
      description: "The range is going on, so this one ends after as much time as has passed of it",
    }),
  })
  .meta({ id: "AnalyticsComparison" });

const metricShape = Object.fromEntries(METRIC_NAMES.map((name) => [name, MetricBody])) as Record<
  (typeof METRIC_NAMES)[number],
  typeof MetricBody
>;

const OverviewBody = Envelope.extend({
  comparison: ComparisonBody.nullable(),
  players: PlayersLink,
  metrics: z.object({ ...metricShape, currencyGranted: z.record(z.string(), MetricBody) }),
}).meta({ id: "AnalyticsOverview" });

const TrendsBody = Envelope.extend({
  interval: z.enum(INTERVALS),
  comparison: ComparisonBody.nullable(),
  series: z.array(TrendSeries),
}).meta({ id: "AnalyticsTrends" });

const TrendsQuery = withFilters(
  {
    ...QuestionQuery.shape,
    ...ComparisonFields.shape,
    compare: ComparisonFields.shape.compare.unwrap().default("none"),
    metric: metricList(METRICS_MAX).meta({
      description:
        "Metrics of the overview, currencyGranted:<key>, event:<eventType>, sum:<eventType>.<property>; " +
        "by comma, or given several times",
      "x-suggest": METRIC_NAMES,
    }),
    interval: z.enum(INTERVALS).default("day"),
    breakdown: z
      .string()
      .max(400)
      .optional()
      .meta({ description: "eventType, segment or property:<path>; of what is counted from events" }),
    limit: z.coerce.number().int().min(1).max(SERIES_MAX).default(10),
    cumulative: Flag.meta({ description: "Each point adds to those before" }),
  },
  "operation",
);

const SegmentsBody = Envelope.extend({
  lastDay: z.iso.date().meta({ description: "The last local day that was over at asOf" }),
  total: z.int().meta({ description: "Players with an event before asOf" }),
  players: PlayersLink,
  groups: z.array(
    z.object({
      key: z.enum(SEGMENT_GROUPS),
      segments: z.array(
        z
          .object({
            key: z.string(),
            label: z.string(),
            definition: z.string(),
            players: z.int(),
            share: z.number(),
            previousPlayers: z.int().nullable().meta({ description: "A week before; null for level and xp" }),
            change: z.int().nullable(),
            avgXp: z.number().nullable(),
            avgLevel: z.number().nullable(),
          })
          .meta({ id: "AnalyticsSegment" }),
      ),
    }),
  ),
}).meta({ id: "AnalyticsSegments" });

/** A player in a list. */
export const SegmentPlayerBody = Person.extend({
  xp: z.int(),
  level: z.int(),
  lastActiveAt: z.iso.datetime().nullable().meta({ description: "Null: the events are no longer kept" }),
}).meta({ id: "AnalyticsSegmentPlayer" });

export const analyticsRoutes = [
  question.get("/analytics/overview", "getAnalyticsOverview", {
    isRevalidated: true,
    summary: "Get how players did in a range, beside an earlier one",
    description:
      "Counts are exact. A player is active by an event of any type, or of activeEvents, and new by the " +
      "first event ever.",
    query: QuestionQuery.extend({
      ...ComparisonFields.shape,
      activeEvents: textList({ max: EVENT_TYPES_MAX, isRepeatable: true })
        .optional()
        .meta({ description: "Event types, by comma" }),
    }),
    response: OverviewBody,
    outside: (app, { projectId, query }) =>
      answerQuestion(app, { id: "overview", projectId, query }, async (work, asked) => ({
        ...playersLink("overview", OverviewNumber.shape),
        ...(await readOverview(work, asked, query)),
      })),
  }),
  question.get("/analytics/trends", "getAnalyticsTrends", {
    isRevalidated: true,
    summary: "Get metrics over time",
    description:
      "filter[eventType]=a,b and filter[properties.team]=GER count only such events. Weeks and months are " +
      "clipped to the range.",
    query: TrendsQuery,
    response: TrendsBody,
    outside: (app, { projectId, query }) =>
      answerQuestion(app, { id: "trends", projectId, query }, (work, asked) =>
        readTrends(work, asked, asTrendQuery(query)),
      ),
  }),
  question.get("/analytics/segments", "getAnalyticsSegments", {
    isRevalidated: true,
    summary: "Get how players divide by activity, level and XP",
    description:
      "Each group has every player once who had an event before asOf: with filters as those of trends, such " +
      "an event. Levels and XP are the player's.",
    query: withFilters(
      {
        ...FrameFields.shape,
        group: z.enum([...SEGMENT_GROUPS, "all"]).default("all"),
        averages: Flag.meta({ description: "false: avgXp and avgLevel are null, which takes less time" }),
      },
      "operation",
    ),
    errors: [],
    response: SegmentsBody,
    outside: (app, { projectId, query }) =>
      answerQuestion(app, { id: "segments", projectId, query }, async (work, asked) => ({
        ...playersLink("segments", { segment: undefined }),
        ...(await readSegments(work, asked, asSegmentsQuestion(query))),
      })),
  }),
  question.get("/analytics/segments/{group}/{segment}/players", "listAnalyticsSegmentPlayers", {
    access: { ...question.common.access, scope: "players:read" },
    errors: [],
    isRevalidated: true,
    summary: "List the players of a segment of analytics",
    description: "Those whom `GET /analytics/segments` counts by the same asOf, timezone and filters, by id.",
    params: z.object({
      group: z.enum(SEGMENT_GROUPS),
      segment: z.string().min(1).max(20).meta({ example: "at_risk" }),
    }),
    query: withFilters({ ...FrameFields.shape, ...PageQuery.shape }, "operation"),
    response: Envelope.extend(pageBody(SegmentPlayerBody).shape),
    outside: (app, { projectId, params, query }) =>
      answerQuestion(app, { id: "segmentPlayers", projectId, query, fields: params }, (work, asked) =>
        listSegmentPlayers(work, asked, {
          ...params,
          ...readFilters(query),
          page: query.page,
          limit: query.limit,
        }),
      ),
  }),
];
