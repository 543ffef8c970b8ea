import { type RawBuilder, sql } from "kysely";
import { auditDefinition } from "../../accounts/audit/definitions.ts";
import { countRows, type Total } from "../../kernel/counting.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { isId, NIL_ID } from "../../kernel/ids.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { lockRoom } from "../../kernel/room-lock.ts";
import { orderBy, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import type { Work } from "../../kernel/work.ts";
import { type JobStatus, queueJob } from "../../long-work/project-jobs.ts";
import { analyticsExport, EXPORT_KEPT_MS, type StoredPlan } from "./export-job.ts";
import type { ExportFormat } from "./format.ts";
import { type ExportPlan, reportOf } from "./plan.ts";
import type { ReportName } from "./reports.ts";

/** Maximum exports of a project that are being made or kept. */
export const EXPORTS_MAX = 10;

/** An export in the API. */
export type StoredExport = {
  id: string;
  report: ReportName;
  format: ExportFormat;
  /** The report's own parameters. */
  parameters: Readonly<Record<string, unknown>>;
  status: JobStatus;
  /** In per cent. */
  progress: number;
  rows: number;
  /** Of the compressed file. */
  bytes: number;
  fileName: string;
  error: string | null;
  createdBy: string;
  createdAt: string;
  finishedAt: string | null;
  expiresAt: string;
};

type ExportRow = {
  id: string;
  report: ReportName;
  style: ExportPlan["style"];
  query: ExportPlan["query"];
  file_name: string;
  row_count: string | number;
  byte_count: string | number;
  created_by: string;
  created_at: Date | string;
  finished_at: Date | string | null;
  expires_at: Date | string;
  status: JobStatus | null;
  progress: number | null;
  error: string | null;
};

/** An export outlives its job where that has failed: it was never completed. */
const SHOWN = sql`
  e.id, e.report, e.plan->'style' as style, e.plan->'query' as query, e.plan->>'fileName' as file_name,
  e.row_count, e.byte_count, e.created_by, e.created_at, e.finished_at, e.expires_at,
  j.status, j.progress, j.error
  from analytics_exports e left join project_jobs j on j.project_id = e.project_id and j.id = e.id`;

const iso = (time: Date | string): string => new Date(time).toISOString();

const show = (row: ExportRow): StoredExport => ({
  id: row.id,
  report: row.report,
  format: row.style.format,
  parameters: row.query,
  status: row.finished_at === null ? (row.status ?? "FAILED") : "SUCCEEDED",
  progress: row.finished_at === null ? (row.progress ?? 0) : 100,
  rows: Number(row.row_count),
  bytes: Number(row.byte_count),
  fileName: `${row.file_name}.gz`,
  error: row.finished_at === null ? row.error : null,
  createdBy: row.created_by,
  createdAt: iso(row.created_at),
  finishedAt: row.finished_at === null ? null : iso(row.finished_at),
  expiresAt: iso(row.expires_at),
});

/** Reference to an export. `reports`: those that the caller may export; others do not exist for it. */
export type ExportRef = { projectId: string; id: string; reports: readonly ReportName[] };

const isVisible = (projectId: string, reports: readonly ReportName[]): RawBuilder<unknown> => sql`
  e.project_id = ${projectId}::uuid
  and e.report in (select json_array_elements_text(${JSON.stringify(reports)}::json))`;

/** @throws DomainError NOT_FOUND */
export const getExport = async (work: Work, { projectId, id, reports }: ExportRef): Promise<StoredExport> => {
  const { rows } = isId(id)
    ? await sql<ExportRow>`
        select ${SHOWN} where ${isVisible(projectId, reports)} and e.id = ${id}::uuid`.execute(work.db)
    : { rows: [] };
  if (!rows[0]) throw notFound("export");
  return show(rows[0]);
};

/** The newest row that an export may have. */
const newestId = async ({ db }: Work, plan: ExportPlan): Promise<string | undefined> => {
  const report = reportOf(plan);
  if (report.kind === "computed") return undefined;
  const { rows } = await sql<{ id: string }>`
    select id::text as id from ${sql.table(report.table)}
    where project_id = ${plan.asked.frame.projectId}::uuid order by id desc limit 1`.execute(db);
  return rows[0]?.id ?? NIL_ID;
};

/** Asks for a file. @throws DomainError CONFLICT EXPORT_LIMIT, JOB_LIMIT */
export const startAnalyticsExport = async (
  work: Work,
  plan: ExportPlan,
  createdBy: string,
): Promise<StoredExport> => {
  const { projectId } = plan.asked.frame;
  await lockRoom(work, projectId, "exports");
  const kept = await sql<{ n: string }>`
    select count(*) as n from analytics_exports where project_id = ${projectId}::uuid`.execute(work.db);
  if (Number(kept.rows[0]!.n) >= EXPORTS_MAX)
    throw conflict("EXPORT_LIMIT", `a project keeps ${EXPORTS_MAX} exports: delete one`);
  const job = await queueJob(work, projectId, { kind: analyticsExport, params: {}, createdBy });
  const uptoId = await newestId(work, plan);
  const stored: StoredPlan = { ...plan, ...(uptoId === undefined ? {} : { uptoId }) };
  const now = work.serverNow;
  await sql`
    insert into analytics_exports (project_id, id, report, plan, created_by, created_at, expires_at)
    values (${projectId}::uuid, ${job.id}::uuid, ${plan.report}, ${JSON.stringify(stored)}::jsonb,
      ${createdBy}, ${now.toISOString()}::timestamptz,
      ${new Date(now.getTime() + EXPORT_KEPT_MS).toISOString()}::timestamptz)`.execute(work.db);
  await auditDefinition(work, "analytics.export_started", { projectId, id: job.id });
  return getExport(work, { projectId, id: job.id, reports: [plan.report] });
};

/** Orders of the list. */
export const EXPORT_ORDERS = { by: { createdAt: sql`e.id` }, usual: "desc" } as const;

export type ListExports = PageQuery &
  Ordered<SortOf<typeof EXPORT_ORDERS>> & { reports: readonly ReportName[] };

/** Returns a page of a project's exports. */
export const listExports = async (
  work: Work,
  projectId: string,
  query: ListExports,
): Promise<Total & { exports: StoredExport[] }> => {
  const where = isVisible(projectId, query.reports);
  const { rows } = await sql<ExportRow>`
    select ${SHOWN} where ${where} order by ${orderBy(EXPORT_ORDERS, query, sql`e.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { exports: rows.map(show), ...(await countRows(work, sql`analytics_exports e where ${where}`)) };
};

/** @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE for a file that is not complete */
export const getCompleteExport = async (work: Work, ref: ExportRef): Promise<StoredExport> => {
  const found = await getExport(work, ref);
  if (found.finishedAt === null)
    throw conflict("INVALID_STATE", `the export is ${found.status} and has no file`);
  return found;
};

/** Deletes an export with its file, and ends its job before its next step. @throws DomainError NOT_FOUND */
export const deleteExport = async (work: Work, ref: ExportRef): Promise<void> => {
  await getExport(work, ref);
  const { projectId, id } = ref;
  const now = sql`${work.serverNow.toISOString()}::timestamptz`;
  // In the order of a step: the job first.
  await sql`
    update project_jobs set status = 'CANCELLED', finished_at = ${now}, updated_at = ${now}
    where project_id = ${projectId}::uuid and id = ${id}::uuid and status in ('QUEUED', 'RUNNING')`.execute(
    work.db,
  );
  await sql`
    with gone as (
      delete from analytics_exports where project_id = ${projectId}::uuid and id = ${id}::uuid)
    delete from analytics_export_pieces
    where project_id = ${projectId}::uuid and export_id = ${id}::uuid`.execute(work.db);
  await auditDefinition(work, "analytics.export_deleted", { projectId, id });
};
