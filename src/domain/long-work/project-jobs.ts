import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { auditDefinition } from "../accounts/audit/audit.ts";
import type { Role, Scope } from "../kernel/caller.ts";
import { conflict, notFound } from "../kernel/errors.ts";
import type { Json } from "../kernel/events/events.ts";
import { isId, newId } from "../kernel/ids.ts";
import { type RowOf, shownRow } from "../kernel/json.ts";
import { Bulkhead, busy } from "../kernel/bulkhead.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../kernel/paging.ts";
import { countRows, lockRoom, type Total, type Transact, type Work } from "../kernel/work.ts";

export type JobInProgress<P> = {
  id: string;
  projectId: string;
  params: P;
  /** State left by the previous step; {} at first. */
  state: Json;
  createdBy: string;
};

/**
 * Result of a step: more to do (`progress` in percent), or the job's result, as JSON text where that may be
 * megabytes.
 */
export type Step =
  | {
      state: Json;
      progress: number;
      /** Others have to do something first: the next step is made a moment later. */
      isWaiting?: boolean;
    }
  | { result: Json }
  | { resultText: string };

/** Access to the operation that starts such a job; it also grants reading and cancelling the job. */
export type JobAccess = { scope: Scope; roles: readonly Role[] };

/**
 * Long-running work in a project, done in steps: each is one transaction together with the job's own state,
 * so that a job that is killed resumes where it was. To add one, add a file in its feature's folder and a
 * line in `registries/jobs/kinds.ts`.
 */
export type JobKind<P extends Json = Json> = {
  kind: string;
  access: JobAccess;
  params: z.ZodType<P>;
  /** A step's statements see one snapshot, and read much: it answers questions of analytics. */
  isSnapshot?: true;
  /** Does a bounded amount of work: a page of players, a few thousand rows. */
  step(work: Work, job: JobInProgress<P>): Promise<Step>;
};

export const jobKind = <P extends Json>(kind: JobKind<P>): JobKind => kind;

export const JOB_STATUSES = ["QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

/** Maximum jobs of one project that wait or run. */
export const JOBS_MAX = 100;

/** A job in the API, which operations that start long-running work answer; its result is requested separately. */
export const ProjectJob = z
  .object({
    id: z.uuid(),
    kind: z.string().meta({ example: "BULK_GRANT" }),
    status: z.enum(JOB_STATUSES),
    progress: z.int().meta({ description: "Percent" }),
    error: z.string().nullable(),
    createdBy: z.string(),
    createdAt: z.iso.datetime(),
    finishedAt: z.iso.datetime().nullable(),
  })
  .meta({ id: "Job" });
export type ProjectJob = z.output<typeof ProjectJob>;

/** A stored job. */
export type JobRow = {
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
  created_at: Date;
  finished_at: Date | null;
};

/** The columns shown: the state and the result of a job may be megabytes. */
const SHOWN = sql.raw(`id, kind, status, progress, error, created_by as "createdBy",
  created_at as "createdAt", finished_at as "finishedAt"`);
type ShownRow = RowOf<ProjectJob>;

/** Whether a project may have another job; it stays so until the end of the transaction. */
export const hasRoomForJob = async (work: Work, projectId: string): Promise<boolean> => {
  await lockRoom(work, projectId, "jobs");
  const open = await sql<{ n: number }>`
    select count(*) as n from project_jobs
    where project_id = ${projectId} and status in ('QUEUED', 'RUNNING')`.execute(work.db);
  return open.rows[0]!.n < JOBS_MAX;
};

/** Queues a job. @throws DomainError CONFLICT JOB_LIMIT */
export const queueJob = async (
  work: Work,
  projectId: string,
  { kind, params, createdBy }: { kind: JobKind; params: Json; createdBy: string },
): Promise<ProjectJob> => {
  if (!(await hasRoomForJob(work, projectId)))
    throw conflict("JOB_LIMIT", `a project may have ${JOBS_MAX} jobs waiting or running`);
  const now = work.serverNow.toISOString();
  const made = await sql<ShownRow>`
    insert into project_jobs
      (project_id, id, kind, status, params, created_by, created_at, updated_at, due_at)
    values (${projectId}, ${newId()}, ${kind.kind}, 'QUEUED', ${JSON.stringify(params)}::jsonb, ${createdBy},
      ${now}::timestamptz, ${now}::timestamptz, ${now}::timestamptz)
    returning ${SHOWN}`.execute(work.db);
  work.wakeJobs();
  return shownRow(made.rows[0]!);
};

/**
 * Jobs that a caller may see; others do not exist for it. `kinds`: of those; `scopes`: of a key, one of which
 * is `params.scope` of a job, where that names one that it needs beside the scope of its kind.
 */
export type SeenJobs = { kinds: readonly string[]; scopes?: readonly string[] | undefined };

/** Reference to a job. */
export type JobRef = SeenJobs & { projectId: string; id: string };

const inTexts = (texts: readonly string[]) =>
  sql`in (select json_array_elements_text(${JSON.stringify(texts)}::json))`;

const isSeen = ({ kinds, scopes }: SeenJobs) =>
  sql`kind ${inTexts(kinds)} and ${
    scopes === undefined ? sql`true` : sql`coalesce(params->>'scope' ${inTexts(scopes)}, true)`
  }`;

const findRow = async ({ db }: Work, { projectId, id, ...seen }: JobRef): Promise<ShownRow> => {
  const found = isId(id)
    ? await sql<ShownRow>`
        select ${SHOWN} from project_jobs
        where project_id = ${projectId} and id = ${id} and ${isSeen(seen)}`.execute(db)
    : { rows: [] };
  const [row] = found.rows;
  if (!row) throw notFound("job");
  return row;
};

/** @throws DomainError NOT_FOUND */
export const getJob = async (work: Work, ref: JobRef): Promise<ProjectJob> =>
  shownRow(await findRow(work, ref));

/**
 * Returns the result of a job as JSON text: an export is megabytes, and would be parsed only to be serialised
 * again.
 * @throws DomainError NOT_FOUND; CONFLICT: INVALID_STATE before it has succeeded
 */
export const getJobResult = async (work: Work, ref: JobRef): Promise<string> => {
  const { status } = await findRow(work, ref);
  const found = await sql<{ result: string | null }>`
    select result::text as result from project_jobs
    where project_id = ${ref.projectId} and id = ${ref.id} and status = 'SUCCEEDED'`.execute(work.db);
  const text = found.rows[0]?.result ?? null;
  if (text === null) throw conflict("INVALID_STATE", `the job is ${status} and has no result`);
  return text;
};

/** Orders of the list. */
export const JOB_ORDERS = { by: { createdAt: sql`id` }, usual: "desc" } as const;

/** Jobs that the caller may not see are neither listed nor counted. */
type ListJobs = PageQuery &
  SeenJobs &
  Ordered<SortOf<typeof JOB_ORDERS>> & {
    kind?: string | undefined;
    status?: JobStatus | undefined;
  };

/** Returns a page of a project's jobs, newest first. */
export const listJobs = async (
  work: Work,
  projectId: string,
  query: ListJobs,
): Promise<Total & { jobs: ProjectJob[] }> => {
  const where = sql`project_id = ${projectId} and ${isSeen(query)}
    and (${query.kind ?? null}::text is null or kind = ${query.kind ?? null})
    and (${query.status ?? null}::text is null or status = ${query.status ?? null})`;
  const page = await sql<ShownRow>`
    select ${SHOWN} from project_jobs where ${where} order by ${orderBy(JOB_ORDERS, query, sql`id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return {
    jobs: page.rows.map((row) => shownRow(row)),
    ...(await countRows(work, sql`project_jobs where ${where}`)),
  };
};

/** Cancels those of some jobs that have not ended, before their next step. @returns the rows of those */
export const cancelJobs = async (
  { db, serverNow }: Work,
  which: RawBuilder<unknown>,
): Promise<ShownRow[]> => {
  const now = sql`${serverNow.toISOString()}::timestamptz`;
  const { rows } = await sql<ShownRow>`
    update project_jobs set status = 'CANCELLED', finished_at = ${now}, updated_at = ${now}
    where ${which} and status in ('QUEUED', 'RUNNING') returning ${SHOWN}`.execute(db);
  return rows;
};

/** Cancels a job before its next step; completed steps are kept. @throws DomainError NOT_FOUND, CONFLICT */
export const cancelJob = async (work: Work, ref: JobRef): Promise<ProjectJob> => {
  await findRow(work, ref);
  const { projectId, id } = ref;
  const [done] = await cancelJobs(work, sql`project_id = ${projectId} and id = ${id}`);
  // Read again: it may have ended while the update waited for it.
  if (!done) throw conflict("INVALID_STATE", `the job is ${(await findRow(work, ref)).status}`);
  await auditDefinition(work, "job.cancelled", { projectId, id });
  return shownRow(done);
};

/** Reads the result of a job. @throws DomainError as getJobResult */
type ReadResult = (transact: Transact, ref: JobRef) => Promise<string>;

/** Creates a reader of results, which may be megabytes: a process reads one at a time. */
export const createResultReader = (): ReadResult => {
  const reading = new Bulkhead({ ofAll: { slots: 1, waiting: READERS_MAX }, refusal: busy });
  return (transact, ref) => reading.run("", () => transact((work) => getJobResult(work, ref)));
};

/** Requests that wait to read a result. */
const READERS_MAX = 1_000;
