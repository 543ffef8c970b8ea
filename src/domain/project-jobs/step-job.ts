import { sql } from "kysely";
import { DomainError } from "../errors.ts";
import type { Json } from "../events.ts";
import type { Transact, Work } from "../work.ts";
import type { JobKind, Step } from "./job-kind.ts";
import { JOB_KINDS } from "./kinds.ts";
import type { JobRow } from "./project-jobs.ts";

/** `due`: since when, exactly. */
type Row = JobRow & { due: string };

/** Waits before another try of a step that threw, in ms; after the last one the job is FAILED. */
const RETRY_DELAYS_MS = [1_000, 10_000, 60_000];

/**
 * Does one step of the job that has waited longest, of any project, and keeps what it came to in the same
 * transaction. A step that throws is undone and tried again later; one that dies with its process at once.
 * @returns whether there was one
 */
export const stepJob = async (
  transact: Transact,
  onError: (error: unknown, jobId: string) => void,
  kinds: readonly JobKind[] = JOB_KINDS,
): Promise<boolean> => {
  let row: Row | undefined;
  try {
    return await transact(async (work) => {
      row = await claim(work);
      if (!row) return false;
      const step = await runStep(work, row, kinds);
      await ("result" in step ? finish(work, row, step.result) : goOn(work, row, step));
      return true;
    });
  } catch (error) {
    const failed = row;
    if (!failed) throw error;
    onError(error, failed.id);
    await transact((work) => giveUpOrRetry(work, failed, error));
    return true;
  }
};

const claim = async ({ db, now }: Work): Promise<Row | undefined> => {
  const found = await sql<Row>`
    select *, due_at::text as due from project_jobs
    where status in ('QUEUED', 'RUNNING') and due_at <= ${now.toISOString()}::timestamptz
    order by due_at limit 1 for update skip locked`.execute(db);
  return found.rows[0];
};

const runStep = async (work: Work, row: Row, kinds: readonly JobKind[]): Promise<Step> => {
  const kind = kinds.find((one) => one.kind === row.kind);
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

const finish = ({ db, now }: Work, { id, project_id }: Row, result: Json): Promise<unknown> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  return sql`
    update project_jobs set status = 'SUCCEEDED', progress = 100, error = null, state = '{}',
      result = ${JSON.stringify(result)}::jsonb, finished_at = ${at}, updated_at = ${at}
    where project_id = ${project_id} and id = ${id}`.execute(db);
};

/** Due at the end of the line, so that jobs take turns. */
const goOn = (
  { db, now }: Work,
  { id, project_id }: Row,
  { state, progress }: { state: Json; progress: number },
): Promise<unknown> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  return sql`
    update project_jobs set status = 'RUNNING', attempts = 0, error = null,
      state = ${JSON.stringify(state)}::jsonb, progress = ${Math.min(99, Math.floor(progress))},
      due_at = ${at}, updated_at = ${at}
    where project_id = ${project_id} and id = ${id}`.execute(db);
};

/** Nothing where somebody else has gone on with the job, or has cancelled it, in between. */
const giveUpOrRetry = async ({ db, now }: Work, row: Row, error: unknown): Promise<void> => {
  const message = (error instanceof Error ? error.message : String(error)).slice(0, 500);
  const isFinal = error instanceof DomainError || row.attempts >= RETRY_DELAYS_MS.length;
  const dueAt = new Date(now.getTime() + (RETRY_DELAYS_MS[row.attempts] ?? 0)).toISOString();
  await sql`
    update project_jobs set attempts = attempts + 1, error = ${message}, due_at = ${dueAt}::timestamptz,
      status = ${isFinal ? "FAILED" : row.status}, updated_at = ${now.toISOString()}::timestamptz,
      finished_at = ${isFinal ? now.toISOString() : null}::timestamptz
    where project_id = ${row.project_id} and id = ${row.id} and status = ${row.status}
      and attempts = ${row.attempts} and due_at = ${row.due}::timestamptz`.execute(db);
};
