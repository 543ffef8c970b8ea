import { z } from "zod";
import { EXPORT_FORMATS, type ExportFormat, slugOf } from "../../domain/analytics/exports/reports.ts";
import {
  SAVED_KIND_NAMES,
  type SavedKindName,
  writeAnswer,
} from "../../domain/analytics/reports/schedule.ts";
import {
  createReport,
  deleteReport,
  getAskable,
  getReport,
  listReports,
  REPORT_ORDERS,
  type ReportRef,
  REPORTS_MAX,
  updateReport,
} from "../../domain/analytics/reports/saved-reports.ts";
import { actorOf, BUILDERS, type Caller, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import { forbidden } from "../../domain/kernel/errors.ts";
import { ReadyJson } from "../../domain/kernel/caches.ts";
import { ANALYTICS } from "../../domain/kernel/timeouts.ts";
import { group, Reply } from "../route.ts";
import { question } from "./analytics-fields.ts";
import { rowsReply } from "./analytics-exports.ts";
import {
  AnswerBody,
  askReport,
  NewReportBody,
  readReport,
  ReportBody,
  ReportChangeBody,
  ReportRunBody,
} from "./analytics-report-query.ts";
import { deleted, Deleted, paged, pageReply } from "./bodies.ts";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import type { App } from "../../app.ts";
import {
  getResult,
  listRuns,
  type ReportRun,
  RUN_ORDERS,
  RUNS_KEPT,
  startRun,
} from "../../domain/analytics/reports/runs.ts";

/** The media types of an answer, and of its files. */
const ANSWER_MEDIA = ["application/json", "text/csv", "application/x-ndjson"] as const;

const common = group({ tag: "Analytics", project: "caller" });
const NEEDS = { approval: true } as const;
/** What operations have in common that read reports. */
export const reading = common.with({ access: { scope: "analytics:read", roles: EVERY_ROLE, needs: NEEDS } });
/** The same of those that change them. */
export const writing = common.with({ access: { scope: "config:manage", roles: BUILDERS, needs: NEEDS } });
/** It asks a question before it writes: not of a replica. */
const asking = writing.with({ timeouts: ANALYTICS, isQuestion: true, errors: ["PAYMENT_REQUIRED"] });

type Asked = { projectId: string; params: { reportId: string } };

export const refOf = ({ projectId, params }: Asked): ReportRef => ({ projectId, id: params.reportId });

/** Files leave the server: not for those who only look. @throws DomainError FORBIDDEN */
const requireFiles = (caller: Caller): void => {
  if (caller.kind === "user" && !BUILDERS.includes(caller.role))
    throw forbidden("INSUFFICIENT_ROLE", `Files need one of the roles ${BUILDERS.join(", ")}`);
};

export const Format = z.enum(EXPORT_FORMATS).optional().meta({
  description: "As a file of rows, as GET /analytics/export makes it; not for VIEWERs",
});

type NamedReport = { name: string; report: SavedKindName };

/** Returns an answer as a file. */
const fileReply = ({ name, report }: NamedReport, ready: ReadyJson, format: ExportFormat): Reply<never> => {
  const answer = JSON.parse(ready.plain.toString()) as { range: { from: string; to: string } };
  const { from, to } = answer.range;
  const fileName = `${slugOf(name) || report}-${from}-${to}.${format}`;
  return rowsReply({ format, fileName }, (put) => writeAnswer({ report, answer }, format, put));
};

export const analyticsReportRoutes = [
  asking.post("/analytics/reports", "createAnalyticsReport", {
    summary: "Save a report",
    description:
      "Takes the parameters of the report's own operation, which is asked once: what cannot be answered is " +
      `refused. A project has at most ${REPORTS_MAX}.`,
    body: NewReportBody,
    example: {
      key: "weekly-matches",
      name: "Matches of the last full week",
      report: "trends",
      parameters: { metric: ["event:match_won", "activePlayers"], interval: "day" },
      range: { last: 1, unit: "WEEK" },
      schedule: { every: "WEEK", weekday: 1, hour: 6, timezone: "Europe/Berlin" },
    },
    status: 201,
    response: ReportBody,
    prepare: (app, { body: { report, parameters, range }, ...around }) =>
      readReport(app, around, { report, parameters, range }),
    run: (work, { projectId, body: { key, name, description, schedule }, caller, prepared }) =>
      createReport(work, projectId, {
        key,
        name,
        description,
        schedule,
        ...prepared,
        createdBy: actorOf(caller),
      }),
  }),
  asking.patch("/analytics/reports/{reportId}", "updateAnalyticsReport", {
    summary: "Change a saved report",
    description: "What is left out stays. Parameters are replaced as a whole.",
    body: ReportChangeBody,
    example: { schedule: { every: "MONTH", day: 1, hour: 6 } },
    response: ReportBody,
    prepare: async (app, { body: { report, parameters, range }, ...around }) => {
      const found = await app.transact((work) => getReport(work, refOf(around)));
      if (report === undefined && parameters === undefined && range === undefined) return {};
      return readReport(app, around, {
        report: report ?? found.report,
        parameters: parameters ?? found.parameters,
        range: range === undefined ? found.range : range,
      });
    },
    run: (work, { body: { name, description, schedule }, prepared, ...asked }) =>
      updateReport(work, refOf(asked), { name, description, schedule, ...prepared }),
  }),
  writing.delete("/analytics/reports/{reportId}", "deleteAnalyticsReport", {
    summary: "Delete a saved report",
    description: "With its runs and their results.",
    response: Deleted,
    run: (work, asked) => deleted(deleteReport(work, refOf(asked))),
  }),
  reading.get("/analytics/reports", "listAnalyticsReports", {
    summary: "List the saved reports",
    ...paged(ReportBody, REPORT_ORDERS, {
      report: z.enum(SAVED_KIND_NAMES).optional().meta({ description: "Those of this kind alone" }),
    }),
    run: async (work, { projectId, query }) =>
      pageReply(await listReports(work, projectId, query), "reports", query),
  }),
  reading.get("/analytics/reports/{reportId}", "getAnalyticsReport", {
    summary: "Get a saved report",
    response: ReportBody,
    run: (work, asked) => getReport(work, refOf(asked)),
  }),
  question.get("/analytics/reports/{reportId}/run", "runAnalyticsReport", {
    isRevalidated: true,
    summary: "Run a saved report",
    description: "The answer is that of the report's own operation, for the range that it has now.",
    query: z.object({ format: Format }),
    media: ANSWER_MEDIA,
    response: AnswerBody,
    outside: async (app, { query: { format }, ...around }) => {
      if (format !== undefined) requireFiles(around.caller);
      const report = await app.transact((work) => getAskable(work, refOf(around)));
      const reply = await askReport(app, around, report);
      return format === undefined ? reply : fileReply(report, reply.body as ReadyJson, format);
    },
  }),
];

const inflate = promisify(gunzip);

const PATH = "/analytics/reports/{reportId}/runs";

const show = ({ config }: App, reportId: string, run: ReportRun) => ({
  ...run,
  resultUrl:
    run.resultUntil === null
      ? null
      : `${config.publicUrl}/api/v1/analytics/reports/${reportId}/runs/${run.id}/result`,
});

export const analyticsReportRunRoutes = [
  reading.get(PATH, "listAnalyticsReportRuns", {
    summary: "List the runs of a saved report",
    description: `The last ${RUNS_KEPT} of its schedule, and those started by request.`,
    ...paged(ReportRunBody, RUN_ORDERS, {}),
    hasSmallRows: true,
    run: async (work, { projectId, params, query }, app) => {
      const listed = await listRuns(work, refOf({ projectId, params }), query);
      return pageReply(listed, "runs", query, (run) => show(app, params.reportId, run));
    },
  }),
  writing.post(PATH, "startAnalyticsReportRun", {
    summary: "Start a run of a saved report",
    description: "As its schedule does: as a job, whose answer is kept, and of which the same are told.",
    status: 201,
    response: ReportRunBody,
    run: async (work, { caller, ...asked }, app) =>
      show(app, asked.params.reportId, await startRun(work, refOf(asked), actorOf(caller))),
  }),
  reading.get(`${PATH}/{runId}/result`, "getAnalyticsReportResult", {
    isRevalidated: true,
    summary: "Get what a run of a saved report has answered",
    description: "As the report's own operation answered when the run was due. Kept for a week.",
    query: z.object({ format: Format }),
    media: ANSWER_MEDIA,
    response: AnswerBody,
    outside: async (app, { caller, projectId, params, query: { format } }) => {
      if (format !== undefined) requireFiles(caller);
      const ref = { projectId, reportId: params.reportId, id: params.runId };
      const found = await app.transact((work) => getResult(work, ref));
      const ready = new ReadyJson(await inflate(found.packed), `W/"${params.runId}"`);
      return format === undefined ? new Reply(200, ready as never) : fileReply(found, ready, format);
    },
  }),
];
