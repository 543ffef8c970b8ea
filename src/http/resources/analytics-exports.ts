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
import {
  EXPORT_FORMATS,
  type ExportFields,
  type ExportFormat,
  MEDIA_TYPES,
  planExport,
  PLAYER_SEGMENTS,
  type Put,
  REPORT_NAMES,
  type ReportName,
  REPORTS,
  writeExport,
} from "../../domain/analytics/exports/reports.ts";
import { actorOf, BUILDERS, type Caller, tenantOf } from "../../domain/kernel/caller.ts";
import { forbidden, notFound } from "../../domain/kernel/errors.ts";
import { JOB_STATUSES } from "../../domain/long-work/project-jobs.ts";
import type { Transact } from "../../domain/kernel/work.ts";
import { group, Reply } from "../route.ts";
import { type ByteRange, StreamedBody } from "../compression.ts";
import { deleted, Deleted, Flag, paged, pageReply } from "./bodies.ts";
import { queryChecker } from "../validate.ts";
import {
  anyText,
  asQuery,
  FrameFields,
  inSnapshot,
  QuestionQuery,
  TEXT_MAX,
  withFilters,
} from "./analytics-fields.ts";
import { ExperimentQuery } from "./analytics-experiments.ts";
import { type Check, checkerOf, QUESTION_CHECKS, readListQuery, routeOf } from "./analytics-players.ts";
import type { App } from "../../app.ts";
import { ANALYTICS } from "../../domain/kernel/timeouts.ts";
import type { CursorParts } from "../../domain/kernel/cursor.ts";

const COLUMNS_CHARS = 20_000;

/** How a file of rows is written. */
export const FileQuery = z.object({
  format: z.enum(EXPORT_FORMATS).default("json"),
  columns: z.string().min(1).max(COLUMNS_CHARS).optional().meta({
    description: "Names of columns, by comma, in the order of the file; properties.score is one too",
    example: "timestamp,externalUserId,properties.score",
  }),
  flatten: Flag.meta({ description: "CSV: a column for each property in place of one of JSON" }),
  bom: Flag.meta({ description: "CSV: begins with a byte order mark, which Excel needs to see UTF-8" }),
  raw: Flag.meta({
    description:
      "CSV: texts that spreadsheets take for formulas are written as they are, without a leading '",
  }),
});

const list = (description: string) =>
  z
    .union([z.string().max(TEXT_MAX), z.array(z.string().max(TEXT_MAX)).max(50)])
    .optional()
    .meta({ description });

/** The fields of an export beside the parameters of its report. */
const ExportFieldsQuery = z.object({ report: z.enum(REPORT_NAMES), ...FileQuery.shape });

/** Reads how a file of rows is written. */
export const fileFieldsOf = (query: z.output<typeof FileQuery>): Omit<ExportFields, "report"> => {
  const { format, columns, flatten = false, bom = false, raw = false } = query;
  return { format, columns: columns?.split(","), flatten, bom, raw };
};

/** The parameters that several reports have, and of which each checks its own. */
const ReportParameters = z.object({
  ...QuestionQuery.shape,
  segment: anyText("Of players: such as lifecycle:at_risk"),
  of: anyText("Of players: those behind a number, as GET /analytics/players takes it"),
  metric: list("Of trends"),
  activeEvents: list("Of an overview"),
});

/** What an export is asked for by: its own fields, and any of the report's operation. */
export const ExportQuery = z.looseObject({ ...ExportFieldsQuery.shape, ...ReportParameters.shape });
type ExportQuery = z.output<typeof ExportQuery>;

const checkPlayers = checkerOf(FrameFields.extend({ segment: z.enum(PLAYER_SEGMENTS).optional() }));

/** Reads which players are listed. */
const readListed = async (query: Record<string, unknown>): Promise<object> => {
  const asked = await readListQuery(query);
  return { ...asked.asking, list: asked.list };
};

/** What checks the parameters of each report: those of its operation, where it has one. */
const PARAMETERS: Readonly<Record<ReportName, Check>> = {
  events: checkerOf(withFilters(QuestionQuery.shape, "report")),
  players: async (query) => ("of" in query ? readListed(query) : checkPlayers(query)),
  trends: queryChecker(routeOf("getAnalyticsTrends")),
  segments: queryChecker(routeOf("getAnalyticsSegments")),
  ...QUESTION_CHECKS,
  experiments: checkerOf(ExperimentQuery),
};

const OWN_NAMES: ReadonlySet<string> = new Set([...Object.keys(ExportFieldsQuery.shape), "projectId"]);

type AskedExport = { fields: ExportFields; query: Readonly<Record<string, unknown>> };

/**
 * Reads what an export is asked for by.
 * @throws DomainError VALIDATION_ERROR for a parameter that the report does not have
 */
export const readExportQuery = async (query: ExportQuery): Promise<AskedExport> => {
  const { report } = query;
  const others = Object.entries(query).filter(([name, value]) => !OWN_NAMES.has(name) && value !== undefined);
  const parsed = await PARAMETERS[report](Object.fromEntries(others));
  return {
    fields: { report, ...fileFieldsOf(query) },
    query: parsed as AskedExport["query"],
  };
};

/** The reports that a caller may export: a key needs the scope that reads the same by other operations. */
export const reportsFor = (caller: Caller): ReportName[] =>
  REPORT_NAMES.filter((name) => {
    const { scope } = REPORTS[name];
    return scope === undefined || caller.kind !== "key" || caller.scopes.includes(scope);
  });

/** @throws DomainError FORBIDDEN INSUFFICIENT_SCOPE */
export const requireReport = (caller: Caller, report: ReportName): void => {
  if (reportsFor(caller).includes(report)) return;
  const { scope } = REPORTS[report];
  throw forbidden("INSUFFICIENT_SCOPE", `The API key lacks the scope ${scope ?? ""}, which ${report} need`);
};

const Texts = z.union([z.string().max(TEXT_MAX), z.array(z.string().max(1_000)).max(200)]);
const Scalar = z.union([Texts, z.boolean(), z.number()]);

/** The same as a body: lists may be lists, and flags booleans. */
export const ExportBody = z
  .object({
    report: z.enum(REPORT_NAMES),
    format: z.enum(EXPORT_FORMATS).optional(),
    columns: Texts.optional().meta({ description: "Names of columns, in the order of the file" }),
    flatten: z.boolean().optional(),
    bom: z.boolean().optional(),
    raw: z.boolean().optional(),
  })
  .catchall(Scalar.meta({ description: "A parameter of the report's operation" }));

/** What operations of exports have in common. */
export const exporting = group({
  tag: "Analytics",
  project: "caller",
  access: { scope: "analytics:read", roles: BUILDERS, needs: { approval: true } },
});

/** Makes browsers save the answer as a file. */
const asFile = (fileName: string): Record<string, string> => ({
  "Content-Disposition": `attachment; filename="${fileName}"`,
});

/** What operations have in common that write a file while it is read. */
export const streaming = {
  timeouts: ANALYTICS,
  isStream: true,
  readsReplica: true,
  media: ["application/json", "text/csv", "application/x-ndjson"],
  response: z.array(z.record(z.string(), z.unknown())),
} as const;

type RowsFile = { format: ExportFormat; fileName: string };

/** Answers with a file that is made while it is read; a complete one ends with the number of rows. */
export const rowsReply = (
  { format, fileName }: RowsFile,
  write: (put: Put) => Promise<number>,
): Reply<never> => {
  const body = new StreamedBody({
    kind: "made",
    type: MEDIA_TYPES[format],
    trailers: ["X-Export-Rows"],
    make: async (put) => ({ "X-Export-Rows": String(await write(put)) }),
  });
  return new Reply(200, body as never, asFile(fileName));
};

type Streamed = { projectId: string; caller: Caller; signal: AbortSignal; file: RowsFile };

/** As `rowsReply`: of rows that `write` reads from one snapshot. */
export const streamedFile = (
  app: App,
  { projectId, caller, signal, file }: Streamed,
  write: (parts: CursorParts, to: { put: Put; signal: AbortSignal }) => Promise<number>,
): Reply<never> => {
  const rows = { role: "web", tenantId: tenantOf(caller), projectIds: [projectId] } as const;
  const parts = {
    transact: app.transact,
    closing: app.replicaAs(rows),
    hasOneSession: app.limits.hasOneSession === true,
  };
  return rowsReply(file, (put) => write(parts, { put, signal }));
};

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

export const analyticsExportRoutes = [
  exporting.get("/analytics/export", "exportAnalytics", {
    ...streaming,
    summary: "Export a report as a file",
    description:
      "Takes the parameters of the report's own operation; events take from, to, period and filters, " +
      "players segment. The file is of one moment, however long: it ends with the trailer X-Export-Rows, " +
      "and the connection breaks where it cannot be completed. NDJSON of events is what POST " +
      "/events/batch takes.",
    query: ExportQuery,
    errors: ["PAYMENT_REQUIRED"],
    outside: async (app, { projectId, query, caller, signal }) => {
      const { fields, query: parameters } = await readExportQuery(query);
      requireReport(caller, fields.report);
      const plan = await inSnapshot(app, (work) =>
        planExport(work, { projectId, fields, query: parameters }),
      );
      const file = { format: fields.format, fileName: plan.fileName };
      return streamedFile(app, { projectId, caller, signal, file }, (parts, to) =>
        writeExport(parts, plan, to),
      );
    },
  }),
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
    // Whoever counts what is kept must see what others have committed: not in the snapshot of the plan.
    prepare: async (app, { projectId, body, caller }) => {
      const { fields, query } = await readExportQuery(ExportQuery.parse(asQuery(body)));
      requireReport(caller, fields.report);
      return inSnapshot(app, (work) => planExport(work, { projectId, fields, query }));
    },
    run: (work, { caller, prepared: plan }) => startAnalyticsExport(work, plan, actorOf(caller)),
  }),
  exporting.get("/analytics/exports", "listAnalyticsExports", {
    summary: "List the files of reports",
    description: "Those of the reports that the caller may export; the others are not there for them.",
    ...paged(StoredExportBody, EXPORT_ORDERS, {}),
    hasSmallRows: true,
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
