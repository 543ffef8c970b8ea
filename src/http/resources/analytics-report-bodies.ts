import { z } from "zod";
import {
  CheckedSchedule,
  RelativeRange,
  ReportDescription,
  ReportKind,
  ReportName,
  ReportParameters,
  ReportRange,
  ScheduleFields,
} from "../../domain/analytics/reports/schedule.ts";
import { RUN_CAUSES } from "../../domain/analytics/reports/runs.ts";
import { JOB_STATUSES } from "../../domain/long-work/project-jobs.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { analyticsExperimentRoutes } from "./analytics-experiments.ts";
import { routeOf } from "./analytics-players.ts";

const Schedule = CheckedSchedule.nullable().meta({
  description: "When it is run by itself; null: not at all",
});

/** The body that makes a report. */
export const NewReportBody = z.object({
  key: Key.optional().meta({
    description: "Names the report in every project; it cannot change. Default: one like the name",
  }),
  name: ReportName,
  description: ReportDescription.default(null),
  report: ReportKind,
  parameters: ReportParameters.default({}),
  range: ReportRange.default(null),
  schedule: Schedule.default(null),
});

/** The body that changes one: what it leaves out stays. */
export const ReportChangeBody = z.object({
  name: ReportName.optional(),
  description: ReportDescription.optional(),
  report: ReportKind.optional(),
  parameters: ReportParameters.optional(),
  range: ReportRange.optional(),
  schedule: Schedule.optional(),
});

/** A report in an answer. */
export const ReportBody = z
  .object({
    id: z.uuid(),
    key: z.string(),
    name: z.string(),
    description: z.string().nullable(),
    report: ReportKind,
    parameters: z.record(z.string(), z.unknown()),
    range: RelativeRange.nullable(),
    schedule: ScheduleFields.extend({ timezone: z.string() }).nullable(),
    nextRunAt: z.iso.datetime().nullable().meta({ description: "By its schedule" }),
    createdBy: z.string(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "AnalyticsReport" });

/** A run in an answer. */
export const ReportRunBody = z
  .object({
    id: z.uuid(),
    cause: z.enum(RUN_CAUSES),
    dueAt: z.iso.datetime().meta({ description: "The moment that it was asked at, however late it was" }),
    status: z.enum(JOB_STATUSES),
    error: z.string().nullable(),
    range: z
      .object({ from: z.iso.date(), to: z.iso.date(), timezone: z.string() })
      .nullable()
      .meta({ description: "Local dates, both included; null before it has succeeded" }),
    createdAt: z.iso.datetime(),
    finishedAt: z.iso.datetime().nullable(),
    resultUrl: z.string().nullable().meta({ description: "null where there is no result, or none any more" }),
    resultUntil: z.iso.datetime().nullable(),
  })
  .meta({ id: "AnalyticsReportRun" });

const responseOf = (id: string): z.ZodType => routeOf(id).response as z.ZodType;

/** The answer of a report: that of its operation. */
export const AnswerBody = z.union([
  responseOf("getAnalyticsOverview"),
  responseOf("getAnalyticsTrends"),
  responseOf("getAnalyticsSegments"),
  responseOf("getAnalyticsRetention"),
  responseOf("getAnalyticsCohorts"),
  responseOf("getAnalyticsFunnel"),
  analyticsExperimentRoutes[0]!.response as z.ZodType,
]);
