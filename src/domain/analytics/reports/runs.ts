import { type RawBuilder, sql } from "kysely";
import { auditDefinition } from "../../accounts/audit/audit.ts";
import type { Mail } from "../../accounts/email/mail.ts";
import { getAskable, readersAmong, type ReportRef } from "./saved-reports.ts";
import {
  lastDueMs,
  nextDueMs,
  type RelativeRange,
  reportRun,
  type SavedKindName,
  type Schedule,
  type StoredQuestion,
} from "./schedule.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { shown } from "../../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { countRows, type Total, type Work } from "../../kernel/work.ts";
import { hasRoomForJob, type JobStatus, queueJob } from "../../long-work/project-jobs.ts";

/** Runs of a report that are kept. */
export const RUNS_KEPT = 30;
/** How long a run is listed, in ms; its result is gone long before. */
const LISTED_MS = 400 * 86_400_000;

export const RUN_CAUSES = ["SCHEDULE", "REQUEST"] as const;
type RunCause = (typeof RUN_CAUSES)[number];

/** What a run has answered about. */
type Answered = { from: string; to: string; timezone: string };

/** A run of a report. */
type Row = {
  id: string;
  cause: RunCause;
  dueAt: Date;
  status: JobStatus;
  error: string | null;
  range: Answered | null;
  createdAt: Date;
  finishedAt: Date | null;
  /** Until when its result can be read; null where there is none. */
  resultUntil: Date | null;
};

const RUNS = sql`
  from analytics_report_runs r left join project_jobs j on j.project_id = r.project_id and j.id = r.id`;

/** What is known of a run and its job: one that is not there any more has failed. */
const COLUMNS = sql`
  r.id, r.cause, r.due_at as "dueAt", coalesce(r.status, j.status, 'FAILED') as status,
  coalesce(r.error, j.error) as error, r.answered as range,
  coalesce(r.finished_at, j.finished_at) as "finishedAt"`;

const SHOWN = sql`
  ${COLUMNS}, r.created_at as "createdAt", case when r.result is not null then r.result_until end as "resultUntil"
  ${RUNS}`;

const show = (row: Row) => ({
  ...shown(row, ["id", "cause", "dueAt", "status", "error", "range"]),
  ...(row.status === "SUCCEEDED" && { error: null }),
  ...shown(row, ["createdAt", "finishedAt", "resultUntil"]),
});

/** A run of a report in the API. */
export type ReportRun = ReturnType<typeof show>;

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
const queueRun = async (work: Work, due: Due): Promise<string> => {
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

type RunRef = { projectId: string; reportId: string; id: string };

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
type RunResult = { name: string; report: SavedKindName; packed: Uint8Array };

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

type ListRuns = PageQuery & Ordered<SortOf<typeof RUN_ORDERS>>;

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

/** Runs that have ended, and that nobody was told of. */
const UNTOLD = sql`
  ${RUNS} where r.told_at is null
    and (r.status is not null or j.id is null or j.status in ('FAILED', 'CANCELLED'))`;

type ToldRow = Omit<Row, "createdAt" | "resultUntil"> & {
  projectId: string;
  reportId: string;
  report: SavedKindName;
};

/** A run, by its project. */
export type RunOf = { projectId: string; id: string };

/** Returns the next run after `after` that has ended and that nobody was told of; undefined without any. */
export const findUntold = async ({ db }: Work, after: RunOf | undefined): Promise<RunOf | undefined> => {
  const isLater = after ? sql`and r.id > ${after.id}::uuid` : sql``;
  const { rows } = await sql<RunOf>`
    select r.project_id as "projectId", r.id ${UNTOLD} ${isLater} order by r.id limit 1`.execute(db);
  return rows[0];
};

/** Runs by request within a day of which a report's readers get mails; of more they only find the results. */
export const MAILED_BY_REQUEST_MAX = 10;

const isMailed = async ({ db, serverNow }: Work, run: ToldRow): Promise<boolean> => {
  if (run.cause === "SCHEDULE") return true;
  const { rows } = await sql<{ told: number }>`
    select count(*) as told from analytics_report_runs
    where project_id = ${run.projectId}::uuid and report_id = ${run.reportId}::uuid and cause = 'REQUEST'
      and told_at >= ${`${serverNow.toISOString().slice(0, 10)}T00:00:00Z`}::timestamptz`.execute(db);
  return rows[0]!.told < MAILED_BY_REQUEST_MAX;
};

type About = { name: string; schedule: Schedule | null; tenantId: string };

const takeUntold = async ({ db }: Work, { projectId, id }: RunOf): Promise<ToldRow | undefined> => {
  const { rows } = await sql<ToldRow>`
    select ${COLUMNS}, r.project_id as "projectId", r.report_id as "reportId", r.report
    ${UNTOLD} and r.project_id = ${projectId}::uuid and r.id = ${id}::uuid
    for update of r skip locked`.execute(db);
  return rows[0];
};

const about = async ({ db }: Work, run: ToldRow): Promise<About | undefined> => {
  const { rows } = await sql<About>`
    select s.name, s.schedule, p.tenant_id as "tenantId" from analytics_reports s join projects p on p.id = s.project_id
    where s.project_id = ${run.projectId}::uuid and s.id = ${run.reportId}::uuid
      and p.deleted_at is null`.execute(db);
  return rows[0];
};

/** How long an error is that others are told. */
const ERROR_MAX = 500;

type TellParts = { mail: Mail; publicUrl: string };

const tell = async (work: Work, { mail, publicUrl }: TellParts, run: ToldRow, of: About): Promise<void> => {
  const { projectId, id: runId, reportId, report, range } = run;
  const dueAt = run.dueAt.toISOString();
  const error = (run.error ?? "The run has failed").slice(0, ERROR_MAX);
  const common = { reportId, runId, name: of.name, report, dueAt };
  if (range) {
    const resultUrl = `${publicUrl}/api/v1/analytics/reports/${reportId}/runs/${runId}/result`;
    work.emit(projectId, "report.ready", { ...common, range, resultUrl });
  } else work.emit(projectId, "report.failed", { ...common, error });
  if (!(await isMailed(work, run))) return;
  for (const { id: userId, email: to } of await readersAmong(work, of.tenantId, of.schedule?.mailTo ?? [])) {
    const whom = { to, tenantId: of.tenantId, userId };
    const values = { reportName: of.name, reportId, runId };
    if (range) await mail.queue(work, { template: "report-ready", values: { ...values, ...range }, ...whom });
    else await mail.queue(work, { template: "report-failed", values: { ...values, error }, ...whom });
  }
};

/**
 * Tells of a run that has ended, unless another process has: by events and mails of the transaction that
 * notes it, so that each is told of once. Nobody is told of one that was cancelled.
 */
export const tellOfRun = async (work: Work, ref: RunOf, parts: TellParts): Promise<void> => {
  const run = await takeUntold(work, ref);
  if (!run) return;
  const of = run.status === "CANCELLED" ? undefined : await about(work, run);
  if (of) await tell(work, parts, run, of);
  const now = work.serverNow.toISOString();
  const finishedAt = isoOf(run.finishedAt) ?? now;
  await sql`
    update analytics_report_runs set told_at = ${now}::timestamptz, status = ${run.status},
      error = ${run.status === "SUCCEEDED" ? null : run.error}, finished_at = ${finishedAt}::timestamptz
    where project_id = ${run.projectId}::uuid and id = ${run.id}::uuid`.execute(work.db);
};

/** Reports that are due: those of tenants that may use the service, before a moment. */
const dueBefore = (at: Date): RawBuilder<unknown> => sql`
  from analytics_reports r
  join projects p on p.id = r.project_id and p.deleted_at is null
  join tenants t on t.id = p.tenant_id and t.approval_status = 'APPROVED' and t.deleted_at is null
  where r.next_at < ${at.toISOString()}::timestamptz`;

/** Whether a report is due, or a run has ended that nobody was told of. */
export const areReportsDue = (at: Date): RawBuilder<unknown> =>
  sql`(exists (select ${dueBefore(at)}) or exists (select ${UNTOLD}))`;

/** Position in a walk over due reports; undefined at its beginning. */
export type DueCursor = { projectId: string; id: string };

type DueRow = Pick<Due, "report" | "question" | "range" | "createdBy"> & {
  schedule: Schedule;
  next_at: Date;
};

/** Returns the next due report after `cursor`; undefined when there is none. */
export const findDueReport = async (
  { db, serverNow }: Work,
  cursor: DueCursor | undefined,
): Promise<DueCursor | undefined> => {
  const after = cursor
    ? sql`and (r.project_id, r.id) > (${cursor.projectId}::uuid, ${cursor.id}::uuid)`
    : sql``;
  const { rows } = await sql<DueCursor>`
    select r.project_id as "projectId", r.id ${dueBefore(serverNow)} ${after}
    order by r.project_id, r.id limit 1`.execute(db);
  return rows[0];
};

/**
 * Queues the run of a due report, unless another process has done so. A report that was due several times
 * runs once, for the latest of them. One whose project has no room for a job stays due.
 */
export const queueDueReport = async (work: Work, { projectId, id }: DueCursor): Promise<void> => {
  const now = work.serverNow;
  const { rows } = await sql<DueRow>`
    select r.report, r.question, r."range", r.schedule, r.next_at, r.created_by as "createdBy"
    ${dueBefore(now)} and r.project_id = ${projectId}::uuid and r.id = ${id}::uuid
    for update of r skip locked`.execute(work.db);
  const [row] = rows;
  if (!row || !(await hasRoomForJob(work, projectId))) return;
  const { schedule, next_at: nextAt, ...asked } = row;
  const dueMs = Math.max(nextAt.getTime(), lastDueMs(schedule, now.getTime() - 1));
  await queueRun(work, { ...asked, projectId, reportId: id, cause: "SCHEDULE", dueMs });
  await sql`
    update analytics_reports set next_at = ${new Date(nextDueMs(schedule, dueMs)).toISOString()}::timestamptz
    where project_id = ${projectId}::uuid and id = ${id}::uuid`.execute(work.db);
};
