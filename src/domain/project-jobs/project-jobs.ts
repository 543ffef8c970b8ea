import { sql } from "kysely";
import { countRows, type Total } from "../counting.ts";
import { conflict, DomainError, notFound } from "../errors.ts";
import type { Json } from "../events.ts";
import { isId, newId } from "../ids.ts";
import { offsetOf, type PageQuery } from "../paging.ts";
import { savepoint, type Work } from "../work.ts";
import type { JobKind } from "./job-kind.ts";
import { JOB_KINDS } from "./kinds.ts";

export const JOB_STATUSES = ["QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

/** Jobs of one project that wait or run. */
export const JOBS_MAX = 100;

/** A job as the API shows it; its result is asked for apart. */
export type ProjectJob = {
  id: string;
  kind: string;
  status: JobStatus;
  /** Percent. */
  progress: number;
  error: string | null;
  createdBy: string;
  createdAt: string;
  finishedAt: string | null;
};

type Row = {
  id: string;
  project_id: string;
  kind: string;
  status: JobStatus;
  params: Json;
  state: Json;
  progress: number;
  result: Json | null;
  error: string | null;
  attempts: number;
  created_by: string;
  created_at: Date | string;
  finished_at: Date | string | null;
};

const show = (row: Row): ProjectJob => ({
  id: row.id,
  kind: row.kind,
  status: row.status,
  progress: row.progress,
  error: row.error,
  createdBy: row.created_by,
  createdAt: new Date(row.created_at).toISOString(),
  finishedAt: row.finished_at === null ? null : new Date(row.finished_at).toISOString(),
});

/** Queues a job. @throws DomainError CONFLICT JOB_LIMIT */
export const queueJob = async (
  work: Work,
  projectId: string,
  { kind, params, createdBy }: { kind: JobKind; params: Json; createdBy: string },
): Promise<ProjectJob> => {
  const open = await sql<{ n: string | number }>`
    select count(*) as n from project_jobs
    where project_id = ${projectId} and status in ('QUEUED', 'RUNNING')`.execute(work.db);
  if (Number(open.rows[0]!.n) >= JOBS_MAX)
    throw conflict("JOB_LIMIT", `a project may have ${JOBS_MAX} jobs waiting or running`);
  const now = work.now.toISOString();
  const made = await sql<Row>`
    insert into project_jobs
      (project_id, id, kind, status, params, created_by, created_at, updated_at, due_at)
    values (${projectId}, ${newId()}, ${kind.kind}, 'QUEUED', ${JSON.stringify(params)}::jsonb, ${createdBy},
      ${now}::timestamptz, ${now}::timestamptz, ${now}::timestamptz) returning *`.execute(work.db);
  work.ringJobs();
  return show(made.rows[0]!);
};

const findRow = async ({ db }: Work, projectId: string, id: string): Promise<Row> => {
  const found = isId(id)
    ? await sql<Row>`select * from project_jobs where project_id = ${projectId} and id = ${id}`.execute(db)
    : { rows: [] };
  const [row] = found.rows;
  if (!row) throw notFound("job");
  return row;
};

/** @throws DomainError NOT_FOUND */
export const getJob = async (work: Work, projectId: string, id: string): Promise<ProjectJob> =>
  show(await findRow(work, projectId, id));

/** What a job came to. @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE before it has succeeded */
export const getJobResult = async (work: Work, projectId: string, id: string): Promise<Json> => {
  const { status, result } = await findRow(work, projectId, id);
  if (status !== "SUCCEEDED" || result === null)
    throw conflict("INVALID_STATE", `the job is ${status} and has no result`);
  return result;
};

export type ListJobs = PageQuery & { kind?: string | undefined; status?: JobStatus | undefined };

/** A page of a project's jobs, newest first. */
export const listJobs = async (
  work: Work,
  projectId: string,
  query: ListJobs,
): Promise<Total & { jobs: ProjectJob[] }> => {
  const where = sql`project_id = ${projectId}
    and (${query.kind ?? null}::text is null or kind = ${query.kind ?? null})
    and (${query.status ?? null}::text is null or status = ${query.status ?? null})`;
  const page = await sql<Row>`
    select * from project_jobs where ${where} order by id desc
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { jobs: page.rows.map(show), ...(await countRows(work, sql`project_jobs where ${where}`)) };
};

/** Stops a job before its next step; what it has done stays done. @throws DomainError NOT_FOUND, CONFLICT */
export const cancelJob = async (work: Work, projectId: string, id: string): Promise<ProjectJob> => {
  const { status } = await findRow(work, projectId, id);
  const now = work.now.toISOString();
  const done = await sql<Row>`
    update project_jobs set status = 'CANCELLED', finished_at = ${now}::timestamptz,
      updated_at = ${now}::timestamptz
    where project_id = ${projectId} and id = ${id} and status in ('QUEUED', 'RUNNING')
    returning *`.execute(work.db);
  if (!done.rows[0]) throw conflict("INVALID_STATE", `the job is ${status}`);
  return show(done.rows[0]);
};

/** Waits before another try of a step that threw, in ms; after the last one the job is FAILED. */
const RETRY_DELAYS_MS = [1_000, 10_000, 60_000];

/**
 * Does one step of the job that has waited longest, of any project, and keeps what it came to in the same
 * transaction. A step that throws is undone and tried again later.
 * @returns whether there was one
 */
export const stepJob = async (
  work: Work,
  onError: (error: unknown, jobId: string) => void,
): Promise<boolean> => {
  const found = await sql<Row>`
    select * from project_jobs
    where status in ('QUEUED', 'RUNNING') and due_at <= ${work.now.toISOString()}::timestamptz
    order by due_at limit 1 for update skip locked`.execute(work.db);
  const [row] = found.rows;
  if (!row) return false;
  try {
    const step = await savepoint(work, () => runStep(work, row));
    await ("result" in step ? finish(work, row, step.result) : goOn(work, row, step));
  } catch (error) {
    onError(error, row.id);
    await giveUpOrRetry(work, row, error);
  }
  return true;
};

const runStep = async (work: Work, row: Row) => {
  const kind = JOB_KINDS.find((one) => one.kind === row.kind);
  if (!kind) throw new DomainError("INTERNAL_ERROR", `no job is called ${row.kind}`);
  const { id, project_id: projectId, state, created_by: createdBy } = row;
  const step = await kind.step(work, {
    id,
    projectId,
    params: kind.params.parse(row.params),
    state,
    createdBy,
  });
  await work.em.flush();
  return step;
};

const finish = ({ db, now }: Work, { id, project_id }: Row, result: Json): Promise<unknown> =>
  sql`
  update project_jobs set status = 'SUCCEEDED', progress = 100, result = ${JSON.stringify(result)}::jsonb,
    state = '{}', finished_at = ${now.toISOString()}::timestamptz, updated_at = ${now.toISOString()}::timestamptz
  where project_id = ${project_id} and id = ${id}`.execute(db);

/** Due at the end of the line, so that jobs take turns. */
const goOn = (
  { db, now }: Work,
  { id, project_id }: Row,
  { state, progress }: { state: Json; progress: number },
): Promise<unknown> =>
  sql`
  update project_jobs set status = 'RUNNING', attempts = 0, state = ${JSON.stringify(state)}::jsonb,
    progress = ${Math.min(99, Math.floor(progress))}, due_at = ${now.toISOString()}::timestamptz,
    updated_at = ${now.toISOString()}::timestamptz
  where project_id = ${project_id} and id = ${id}`.execute(db);

const giveUpOrRetry = async ({ db, now }: Work, row: Row, error: unknown): Promise<void> => {
  const message = (error instanceof Error ? error.message : String(error)).slice(0, 500);
  const isFinal = error instanceof DomainError || row.attempts >= RETRY_DELAYS_MS.length;
  const dueAt = new Date(now.getTime() + (RETRY_DELAYS_MS[row.attempts] ?? 0)).toISOString();
  await sql`
    update project_jobs set attempts = attempts + 1, error = ${message}, due_at = ${dueAt}::timestamptz,
      status = ${isFinal ? "FAILED" : row.status}, updated_at = ${now.toISOString()}::timestamptz,
      finished_at = ${isFinal ? now.toISOString() : null}::timestamptz
    where project_id = ${row.project_id} and id = ${row.id}`.execute(db);
};
