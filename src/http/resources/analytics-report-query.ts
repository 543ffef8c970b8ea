import type { App } from "../../app.ts";
import {
  asOfReport,
  atDates,
  CheckedSchedule,
  RelativeRange,
  ReportDescription,
  ReportKind,
  ReportName,
  ReportParameters,
  ReportRange,
  type SavedKindName,
  ScheduleFields,
  type StoredQuestion,
} from "../../domain/analytics/reports/schedule.ts";
import type { SavedQuestion } from "../../domain/analytics/reports/saved-reports.ts";
import { invalid } from "../../domain/kernel/errors.ts";
import { type AnyRoute, perform, type Reply, type RouteContext } from "../route.ts";
import { parseBody, parseParams, queryChecker } from "../validate.ts";
import { analyticsExperimentRoutes } from "./analytics-experiments.ts";
import { analyticsFunnelRoutes, type FunnelBody, funnelOfBody } from "./analytics-funnels.ts";
import { type Asking, askingOf, asQuery } from "./analytics-fields.ts";
import { routeOf, withQuestion } from "./analytics-players.ts";
import { z } from "zod";
import { RUN_CAUSES } from "../../domain/analytics/reports/runs.ts";
import { JOB_STATUSES } from "../../domain/long-work/project-jobs.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";

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

type Parameters = Readonly<Record<string, unknown>>;

/** A question as its operation takes it: parsed, and as it can be stored. */
type Parsed = {
  route: AnyRoute;
  params: unknown;
  /** What the operation is given as query, or as body. */
  given: Asking;
  stored: StoredQuestion;
};

const isScalar = (value: unknown): boolean => ["string", "number", "boolean"].includes(typeof value);

/** Returns parameters as a query has them. @throws DomainError VALIDATION_ERROR for what no query can have */
const asParameters = (parameters: Parameters): Record<string, unknown> => {
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined && ![value].flat().every(isScalar))
      throw invalid(name, "must be a text, a number, true or false, or a list of them");
  return asQuery(parameters);
};

const EXPERIMENT = analyticsExperimentRoutes[0]!;
const FUNNEL_OF_BODY = analyticsFunnelRoutes.find(({ id }) => id === "queryAnalyticsFunnel")!;

/** Parses the parameters of an operation that takes them as its query. */
const byQuery = (id: string) => {
  const route = routeOf(id);
  const check = queryChecker(route);
  return async (parameters: Parameters): Promise<Parsed> => {
    const given = (await check(asParameters(parameters))) as Parsed["given"];
    return { route, params: undefined, given, stored: withQuestion(id, given) as StoredQuestion };
  };
};

const COHORTS = byQuery("getAnalyticsCohorts");
const FUNNELS = byQuery("getAnalyticsFunnel");

const checkExperiment = queryChecker(EXPERIMENT);

/** What reads the parameters of each kind of report. */
const READERS: Readonly<Record<SavedKindName, (parameters: Parameters) => Promise<Parsed>>> = {
  overview: byQuery("getAnalyticsOverview"),
  trends: byQuery("getAnalyticsTrends"),
  segments: byQuery("getAnalyticsSegments"),
  retention: byQuery("getAnalyticsRetention"),
  cohorts: async (parameters) => {
    const parsed = await COHORTS(parameters);
    const { unit, metric, cumulative, segmentBy } = parsed.given as Record<string, unknown>;
    return { ...parsed, stored: { ...parsed.stored, shown: { unit, metric, cumulative, segmentBy } } };
  },
  funnels: async (parameters) => {
    const { steps } = parameters;
    const isBody = Array.isArray(steps) && steps.some((step) => typeof step !== "string");
    if (!isBody) return FUNNELS(parameters);
    const body = (await parseBody(FUNNEL_OF_BODY, parameters)) as z.output<typeof FunnelBody>;
    const stored = { ...askingOf(body), ...funnelOfBody(body) } as StoredQuestion;
    return { route: FUNNEL_OF_BODY, params: undefined, given: body, stored };
  },
  experiments: async ({ ruleId, ...rest }) => {
    if (ruleId === undefined) throw invalid("ruleId", "is needed: the UUID or the key of a rule");
    const params = (await parseParams(EXPERIMENT, { ruleId })) as { ruleId: string };
    const given = (await checkExperiment(asParameters(rest))) as Parsed["given"];
    return { route: EXPERIMENT, params, given, stored: { ...given, ...params } };
  },
};

/** A question of a report: which, and by what. */
type AskedReport = { report: SavedKindName; parameters: Parameters; range: RelativeRange | null };

/** @throws DomainError VALIDATION_ERROR for parameters that a report's operation does not have */
const parse = ({ report, parameters, range }: AskedReport): Promise<Parsed> => {
  if ("projectId" in parameters) throw invalid("projectId", "is not a parameter of a report");
  const named = ["from", "to", "period"].find((name) => name in parameters);
  if (range !== null && named !== undefined)
    throw invalid(named, "give either a range, or dates or a period");
  if (range !== null && report === "segments")
    throw invalid("range", "is not for segments: they are of one moment");
  return READERS[report](parameters);
};

/** What the operation of a question gets of that of the report. */
type Around = Omit<RouteContext<unknown, unknown, unknown>, "params" | "query" | "body" | "ignored">;

const answerOf = async (
  app: App,
  around: Around,
  { route, params, given: question }: Parsed,
  range: RelativeRange | null,
): Promise<Reply<unknown>> => {
  const { projectId } = around;
  const given = range
    ? await app.transact((work) => atDates(work, projectId, { question, range }))
    : question;
  const context = { ...around, params, query: given, body: given, ignored: [] };
  const prepared: unknown = await route.prepare?.(app, context);
  return (await perform(route, app, { ...context, prepared })) as Reply<unknown>;
};

/** Asks a report: the answer is that of its operation. @throws DomainError as that does */
export const askReport = async (app: App, around: Around, asked: AskedReport): Promise<Reply<unknown>> =>
  answerOf(app, around, await parse(asked), asked.range);

/**
 * Reads what a report asks, and asks it once, so that none is saved that cannot be answered.
 * @throws DomainError VALIDATION_ERROR with the fields of the body; else as its operation
 */
export const readReport = async (app: App, around: Around, asked: AskedReport): Promise<SavedQuestion> => {
  try {
    const parsed = await parse(asked);
    await answerOf(app, around, parsed, asked.range);
    return { ...asked, question: parsed.stored };
  } catch (error) {
    throw asOfReport(error, asked.range);
  }
};

/**
 * Reads what a report asks, without asking it.
 * @throws DomainError VALIDATION_ERROR with the fields of the report
 */
export const readQuestion = async (asked: AskedReport): Promise<StoredQuestion> => {
  try {
    return (await parse(asked)).stored;
  } catch (error) {
    throw asOfReport(error, asked.range);
  }
};
