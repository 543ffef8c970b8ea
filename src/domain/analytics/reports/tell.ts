import { sql } from "kysely";
import type { Mail } from "../../accounts/email/mail.ts";
import type { Work } from "../../kernel/work.ts";
import type { JobStatus } from "../../long-work/project-jobs.ts";
import type { SavedKindName } from "./kinds.ts";
import { readersAmong } from "./members.ts";
import type { Answered } from "./runs.ts";
import type { Schedule } from "./schedule.ts";

/** Runs that have ended, and that nobody was told of. A job that is not there any more has failed. */
export const UNTOLD = sql`
  from analytics_report_runs r
  left join project_jobs j on j.project_id = r.project_id and j.id = r.id
  where r.told_at is null and (r.status is not null or j.id is null or j.status in ('FAILED', 'CANCELLED'))`;

type Row = {
  project_id: string;
  id: string;
  report_id: string;
  report: SavedKindName;
  cause: "SCHEDULE" | "REQUEST";
  due_at: Date | string;
  answered: Answered | null;
  status: JobStatus;
  error: string | null;
  finished_at: Date | string | null;
};

/** A run, by its project. */
export type RunOf = { projectId: string; id: string };

/** Returns the next run after `after` that has ended and that nobody was told of; undefined without any. */
export const findUntold = async ({ db }: Work, after: RunOf | undefined): Promise<RunOf | undefined> => {
  const isLater = after ? sql`and r.id > ${after.id}::uuid` : sql``;
  const { rows } = await sql<{ project_id: string; id: string }>`
    select r.project_id, r.id ${UNTOLD} ${isLater} order by r.id limit 1`.execute(db);
  return rows[0] && { projectId: rows[0].project_id, id: rows[0].id };
};

/** Runs by request within a day of which a report's readers get mails; of more they only find the results. */
export const MAILED_BY_REQUEST_MAX = 10;

const isMailed = async ({ db, serverNow }: Work, run: Row): Promise<boolean> => {
  if (run.cause === "SCHEDULE") return true;
  const { rows } = await sql<{ told: string }>`
    select count(*) as told from analytics_report_runs
    where project_id = ${run.project_id}::uuid and report_id = ${run.report_id}::uuid and cause = 'REQUEST'
      and told_at >= ${`${serverNow.toISOString().slice(0, 10)}T00:00:00Z`}::timestamptz`.execute(db);
  return Number(rows[0]!.told) < MAILED_BY_REQUEST_MAX;
};

type About = { name: string; schedule: Schedule | null; tenant_id: string };

const takeUntold = async ({ db }: Work, { projectId, id }: RunOf): Promise<Row | undefined> => {
  const { rows } = await sql<Row>`
    select r.project_id, r.id, r.report_id, r.report, r.cause, r.due_at, r.answered,
      coalesce(r.status, j.status, 'FAILED') as status, coalesce(r.error, j.error) as error,
      coalesce(r.finished_at, j.finished_at) as finished_at
    ${UNTOLD} and r.project_id = ${projectId}::uuid and r.id = ${id}::uuid
    for update of r skip locked`.execute(db);
  return rows[0];
};

const about = async ({ db }: Work, run: Row): Promise<About | undefined> => {
  const { rows } = await sql<About>`
    select s.name, s.schedule, p.tenant_id from analytics_reports s join projects p on p.id = s.project_id
    where s.project_id = ${run.project_id}::uuid and s.id = ${run.report_id}::uuid
      and p.deleted_at is null`.execute(db);
  return rows[0];
};

/** How long an error is that others are told. */
const ERROR_MAX = 500;

export type TellParts = { mail: Mail; publicUrl: string };

const tell = async (work: Work, { mail, publicUrl }: TellParts, run: Row, of: About): Promise<void> => {
  const { project_id: projectId, id: runId, report_id: reportId, report, answered } = run;
  const dueAt = new Date(run.due_at).toISOString();
  const error = (run.error ?? "The run has failed").slice(0, ERROR_MAX);
  const common = { reportId, runId, name: of.name, report, dueAt };
  if (answered) {
    const resultUrl = `${publicUrl}/api/v1/analytics/reports/${reportId}/runs/${runId}/result`;
    work.emit(projectId, "report.ready", { ...common, range: answered, resultUrl });
  } else work.emit(projectId, "report.failed", { ...common, error });
  if (!(await isMailed(work, run))) return;
  for (const { id: userId, email: to } of await readersAmong(work, of.tenant_id, of.schedule?.mailTo ?? [])) {
    const whom = { to, tenantId: of.tenant_id, userId };
    const values = { reportName: of.name, reportId, runId };
    if (answered)
      await mail.queue(work, { template: "report-ready", values: { ...values, ...answered }, ...whom });
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
  const finishedAt = run.finished_at === null ? now : new Date(run.finished_at).toISOString();
  await sql`
    update analytics_report_runs set told_at = ${now}::timestamptz, status = ${run.status},
      error = ${run.status === "SUCCEEDED" ? null : run.error}, finished_at = ${finishedAt}::timestamptz
    where project_id = ${run.project_id}::uuid and id = ${run.id}::uuid`.execute(work.db);
};
