import { z } from "zod";
import {
  deleteExport,
  EXPORT_ORDERS,
  type ExportRef,
  EXPORTS_MAX,
  getCompleteExport,
  getExport,
  listExports,
  readPiece,
  startAnalyticsExport,
  type StoredExport,
} from "../../domain/analytics/exports/export-job.ts";
import { EXPORT_FORMATS, planExport, REPORT_NAMES } from "../../domain/analytics/exports/reports.ts";
import { actorOf, type Caller } from "../../domain/kernel/caller.ts";
import { notFound } from "../../domain/kernel/errors.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { JOB_STATUSES } from "../../domain/long-work/project-jobs.ts";
import type { Transact } from "../../domain/kernel/work.ts";
import { Reply } from "../route.ts";
import { type ByteRange, StreamedBody } from "../compression.ts";
import { asFile, exporting } from "./analytics-export.ts";
import {
  asQuery,
  ExportBody,
  ExportQuery,
  readExportQuery,
  reportsFor,
  requireReport,
} from "./analytics-export-query.ts";
import { Deleted, deleted, pageReply, sortedBy } from "./bodies.ts";

const StoredExportBody = z
  .object({
    id: z.uuid(),
    report: z.enum(REPORT_NAMES),
    format: z.enum(EXPORT_FORMATS),
    parameters: z.record(z.string(), z.unknown()).meta({ description: "The report's own" }),
    status: z.enum(JOB_STATUSES),
    progress: z.int().meta({ description: "Percent" }),
    rows: z.int(),
    bytes: z.int().meta({ description: "Of the file, which is compressed; 0 until it is complete" }),
    fileName: z.string().meta({ example: "laurel-my-game-events-2026-01-01-2026-01-31.ndjson.gz" }),
    error: z.string().nullable(),
    createdBy: z.string(),
    createdAt: z.iso.datetime(),
    finishedAt: z.iso.datetime().nullable(),
    expiresAt: z.iso.datetime().meta({ description: "A week after it was complete" }),
  })
  .meta({ id: "AnalyticsExport" });

type Asked = { caller: Caller; projectId: string; params: { exportId: string } };

const refOf = ({ caller, projectId, params }: Asked): ExportRef => ({
  projectId,
  id: params.exportId,
  reports: reportsFor(caller),
});

/** Reads a part of a file piece by piece; none of the statements waits for the client. */
const readFile =
  (transact: Transact, file: { projectId: string; id: string }) =>
  async ({ from, to }: ByteRange, put: (bytes: Uint8Array) => Promise<void>): Promise<void> => {
    for (let at = from; at <= to;) {
      const piece = await transact((work) => readPiece(work, file, at));
      if (!piece) throw notFound("export");
      const bytes = piece.subarray(0, to - at + 1);
      await put(bytes);
      at += bytes.length;
    }
  };

const fileOf = (transact: Transact, projectId: string, found: StoredExport): StreamedBody =>
  new StreamedBody({
    kind: "stored",
    type: "application/gzip",
    length: found.bytes,
    etag: `"${found.id}"`,
    read: readFile(transact, { projectId, id: found.id }),
  });

export const analyticsExportsRoutes = [
  exporting.post("/analytics/exports", "createAnalyticsExport", {
    summary: "Make a file of a report",
    description:
      "As a job, for what is large: takes what GET /analytics/export takes. What comes after the request " +
      `is not in it. A project keeps ${EXPORTS_MAX} for a week; erasing a player deletes them.`,
    body: ExportBody,
    example: { report: "events", format: "ndjson", from: "2026-01-01", to: "2026-01-31" },
    status: 201,
    errors: ["PAYMENT_REQUIRED"],
    response: StoredExportBody,
    outside: async (app, { projectId, body, caller }) => {
      const { fields, query } = await readExportQuery(ExportQuery.parse(asQuery(body)));
      requireReport(caller, fields.report);
      return app.transact(async (work) =>
        startAnalyticsExport(work, await planExport(work, { projectId, fields, query }), actorOf(caller)),
      );
    },
  }),
  exporting.get("/analytics/exports", "listAnalyticsExports", {
    summary: "List the files of reports",
    description: "Those of the reports that the caller may export; the others are not there for them.",
    query: PageQuery.extend(sortedBy(EXPORT_ORDERS)),
    hasSmallRows: true,
    response: pageBody(StoredExportBody),
    run: async (work, { caller, projectId, query }) => {
      const asked = { ...query, reports: reportsFor(caller) };
      return pageReply(await listExports(work, projectId, asked), "exports", query);
    },
  }),
  exporting.get("/analytics/exports/{exportId}", "getAnalyticsExport", {
    summary: "Get how far a file of a report is",
    response: StoredExportBody,
    run: (work, asked) => getExport(work, refOf(asked)),
  }),
  exporting.get("/analytics/exports/{exportId}/download", "downloadAnalyticsExport", {
    summary: "Download a file of a report",
    description: "As gzip. Range asks for a part, so that a download goes on where it broke.",
    hasRanges: true,
    media: ["application/gzip"],
    response: z.string(),
    outside: async (app, asked) => {
      const { transact } = app;
      const found = await transact((work) => getCompleteExport(work, refOf(asked)));
      return new Reply(200, fileOf(transact, asked.projectId, found) as never, asFile(found.fileName));
    },
  }),
  exporting.delete("/analytics/exports/{exportId}", "deleteAnalyticsExport", {
    summary: "Delete a file of a report",
    description: "One that is being made ends before its next step.",
    response: Deleted,
    run: (work, asked) => deleted(deleteExport(work, refOf(asked))),
  }),
];
