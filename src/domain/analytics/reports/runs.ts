import { type RawBuilder, sql } from "kysely";
import { auditDefinition } from "../../accounts/audit/definitions.ts";
import { countRows, type Total } from "../../kernel/counting.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { orderBy, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import type { Work } from "../../kernel/work.ts";
import { type JobStatus, queueJob } from "../../long-work/project-jobs.ts";
import type { SavedKindName, StoredQuestion } from "./kinds.ts";
import type { RelativeRange } from "./relative-range.ts";
import { reportRun } from "./run-job.ts";
import { getAskable, type ReportRef } from "./saved-reports.ts";

/** Runs of a report that are kept. */
export const RUNS_KEPT = 30;
/** How long a run is listed, in ms; its result is gone long before. */
const LISTED_MS = 400 * 86_400_000;

export const RUN_CAUSES = ["SCHEDULE", "REQUEST"] as const;
export type RunCause = (typeof RUN_CAUSES)[number];

/** What a run has answered about. */
export type Answered = { from: string; to: string; timezone: string };

/** A run of a report in the API. */
export type ReportRun = {
  id: string;
  cause: RunCause;
  dueAt: string;
  status: JobStatus;
  error: string | null;
  range: Answered | null;
  createdAt: string;
  finishedAt: string | null;
  /** Until when its result can be read; null where there is none. */
  resultUntil: string | null;
};

type Row = {
  id: string;
  cause: RunCause;
  due_at: Date | string;
  status: JobStatus;
  error: string | null;
  answered: Answered | null;
  created_at: Date | string;
  finished_at: Date | string | null;
  result_until: Date | string | null;
};

const SHOWN = sql`
  r.id, r.cause, r.due_at, coalesce(r.status, j.status, 'FAILED') as status,
  coalesce(r.error, j.error) as error,
  r.answered, r.created_at, coalesce(r.finished_at, j.finished_at) as finished_at,
  case when r.result is not null then r.result_until end as result_until
  from analytics_report_runs r left join project_jobs j on j.project_id = r.project_id and j.id = r.id`;

const iso = (time: Date | string): string => new Date(time).toISOString();
const isoOrNull = (time: Date | string | null): string | null => (time === null ? null : iso(time));

const show = (row: Row): ReportRun => ({
  id: row.id,
  cause: row.cause,
  dueAt: iso(row.due_at),
  status: row.status,
  error: row.status === "SUCCEEDED" ? null : row.error,
  range: row.answered,
  createdAt: iso(row.created_at),
  finishedAt: isoOrNull(row.finished_at),
  resultUntil: isoOrNull(row.result_until),
});

/** What a run is made from: a report as it was when that was due. */
type Due = {
  projectId: string;
  reportId: string;
  cause: RunCause;
  dueMs: number;
  report: SavedKindName;
  question: StoredQuestion;
  range: RelativeRange | null;
  createdBy: string;
};

/** Makes room for a run: of a report, the newest are kept. */
const dropOld = async ({ db }: Work, { projectId, reportId }: Due): Promise<void> => {
  await sql`
    delete from analytics_report_runs
    where project_id = ${projectId}::uuid and report_id = ${reportId}::uuid and told_at is not null
      and id <= (
        select id from analytics_report_runs
        where project_id = ${projectId}::uuid and report_id = ${reportId}::uuid
        order by id desc offset ${RUNS_KEPT - 1} limit 1)`.execute(db);
};

/** Queues a run. @returns its id @throws DomainError CONFLICT JOB_LIMIT */
export const queueRun = async (work: Work, due: Due): Promise<string> => {
  const { projectId, reportId, cause, dueMs, report, question, range, createdBy } = due;
  await dropOld(work, due);
  const { id } = await queueJob(work, projectId, { kind: reportRun, params: {}, createdBy });
  const now = work.serverNow;
  await sql`
    insert into analytics_report_runs
      (project_id, id, report_id, cause, due_at, report, question, "range", created_at, expires_at)
    values (${projectId}::uuid, ${id}::uuid, ${reportId}::uuid, ${cause},
      ${new Date(dueMs).toISOString()}::timestamptz, ${report}, ${JSON.stringify(question)}::jsonb,
      ${range === null ? null : JSON.stringify(range)}::jsonb, ${now.toISOString()}::timestamptz,
      ${new Date(now.getTime() + LISTED_MS).toISOString()}::timestamptz)
    on conflict do nothing`.execute(work.db);
  return id;
};

/** Starts a run that is told of as those of the schedule are. @throws DomainError NOT_FOUND, JOB_LIMIT */
export const startRun = async (work: Work, ref: ReportRef, createdBy: string): Promise<ReportRun> => {
  const { id: reportId, report, question, range } = await getAskable(work, ref, sql`for share`);
  const { projectId } = ref;
  const dueMs = work.serverNow.getTime();
  const asked = { report, question, range };
  const id = await queueRun(work, { projectId, reportId, cause: "REQUEST", dueMs, ...asked, createdBy });
  await auditDefinition(work, "analytics_report.run_started", { projectId, id: reportId });
  return getRun(work, { projectId, reportId, id });
};

export type RunRef = { projectId: string; reportId: string; id: string };

const ofReport = ({ projectId, reportId }: Omit<RunRef, "id">): RawBuilder<unknown> =>
  sql`r.project_id = ${projectId}::uuid and r.report_id = ${reportId}::uuid`;

/** @throws DomainError NOT_FOUND */
const getRun = async ({ db }: Work, ref: RunRef): Promise<ReportRun> => {
  const { rows } = await sql<Row>`
    select ${SHOWN} where ${ofReport(ref)} and r.id = ${ref.id}::uuid`.execute(db);
  if (!rows[0]) throw notFound("run");
  return show(rows[0]);
};

/** The answer of a run, as gzip of JSON. */
export type RunResult = { name: string; report: SavedKindName; packed: Uint8Array };

/**
 * Returns what a run has given.
 * @throws DomainError NOT_FOUND, also where it is not kept any more; CONFLICT INVALID_STATE for a run that
 * has not succeeded
 */
export const getResult = async (work: Work, ref: RunRef): Promise<RunResult> => {
  if (!isId(ref.reportId) || !isId(ref.id)) throw notFound("run");
  const { status, finishedAt } = await getRun(work, ref);
  if (status !== "SUCCEEDED" || finishedAt === null)
    throw conflict("INVALID_STATE", `the run is ${status} and has no result`);
  const { rows } = await sql<RunResult>`
    select s.name, r.report, r.result as packed
    from analytics_report_runs r
    join analytics_reports s on s.project_id = r.project_id and s.id = r.report_id
    where ${ofReport(ref)} and r.id = ${ref.id}::uuid and r.result is not null`.execute(work.db);
  if (!rows[0]) throw notFound("result");
  return rows[0];
};

/** Orders of the list. */
export const RUN_ORDERS = { by: { createdAt: sql`r.id` }, usual: "desc" } as const;

export type ListRuns = PageQuery & Ordered<SortOf<typeof RUN_ORDERS>>;

/** Returns a page of a report's runs. @throws DomainError NOT_FOUND for an unknown report */
export const listRuns = async (
  work: Work,
  { projectId, id }: ReportRef,
  query: ListRuns,
): Promise<Total & { runs: ReportRun[] }> => {
  const { id: reportId } = await getAskable(work, { projectId, id });
  const where = ofReport({ projectId, reportId });
  const { rows } = await sql<Row>`
    select ${SHOWN} where ${where} order by ${orderBy(RUN_ORDERS, query, sql`r.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { runs: rows.map(show), ...(await countRows(work, sql`analytics_report_runs r where ${where}`)) };
};
