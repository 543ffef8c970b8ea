import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { z } from "zod";
import type { App } from "../../app.ts";
import {
  getResult,
  listRuns,
  type ReportRun,
  RUN_ORDERS,
  RUNS_KEPT,
  startRun,
} from "../../domain/analytics/reports/runs.ts";
import { actorOf } from "../../domain/kernel/caller.ts";
import { ReadyJson } from "../../domain/kernel/caches.ts";
import { Reply } from "../route.ts";
import { AnswerBody, ReportRunBody } from "./analytics-report-bodies.ts";
import {
  ANSWER_MEDIA,
  fileReply,
  Format,
  reading,
  refOf,
  requireFiles,
  writing,
} from "./analytics-reports.ts";
import { paged, pageReply } from "./bodies.ts";

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
