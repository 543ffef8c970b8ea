import { setTimeout as delay } from "node:timers/promises";
import { type RawBuilder, sql } from "kysely";
import { starvedMs, STEP, threadCpuMs } from "../kernel/timeouts.ts";
import { WRITING_SNAPSHOT } from "../kernel/cursor.ts";
import { DomainError } from "../kernel/errors.ts";
import type { Json } from "../kernel/events/events.ts";
import { isCancelled, outageOf, RETRY_DELAYS_MS } from "../kernel/outages.ts";
import { asOneMessage } from "../kernel/statements.ts";
import type { Transact, Work } from "../kernel/work.ts";
import type { JobKind, JobRow, Step } from "./project-jobs.ts";

/** A project with due jobs. */
type DueProject = { projectId: string; tenantId: string };

/** Minimum cost of a step, in ms. */
const LEAST_MS = 1;

/**
 * Decides whose long-running work a process continues: the tenant's with the least time spent on it since it
 * joined (start-time fair queueing), whatever others have queued. Its state only determines the order, and
 * may be lost.
 */
export class JobSchedule {
  /** By tenant: when its next step would start, in ms, if all tenants were served concurrently. */
  readonly #startsAt = new Map<string, number>();
  #waiting: ReadonlySet<string> = new Set();
  /** The start time of the most recent step. */
  #at = 0;

  /** @param due in the order in which they wait @returns them in the order in which they are served */
  order(due: readonly DueProject[]): DueProject[] {
    const waiting = new Set(due.map(({ tenantId }) => tenantId));
    for (const id of waiting) {
      const isNew = !this.#waiting.has(id);
      if (isNew) this.#startsAt.set(id, Math.max(this.#startsAt.get(id) ?? 0, this.#at));
    }
    for (const [id, startsAt] of this.#startsAt)
      if (!waiting.has(id) && startsAt <= this.#at) this.#startsAt.delete(id);
    this.#waiting = waiting;
    const startOf = ({ tenantId }: DueProject): number => this.#startsAt.get(tenantId)!;
    return due.toSorted((a, b) => startOf(a) - startOf(b));
  }

  /** Records the time that a step of a tenant's job took. */
  took(tenantId: string, ms: number): void {
    const startsAt = this.#startsAt.get(tenantId) ?? this.#at;
    this.#at = Math.max(this.#at, startsAt);
    this.#startsAt.set(tenantId, startsAt + Math.max(LEAST_MS, ms));
  }
}

const OPEN_JOBS = sql.raw(`status in ('QUEUED', 'RUNNING')`);

const dueJobs = (at: Date): RawBuilder<unknown> =>
  sql`${OPEN_JOBS} and j.due_at <= ${at.toISOString()}::timestamptz`;

/** Whether a job of any project is due. */
export const areJobsDue = (at: Date): RawBuilder<unknown> =>
  sql`exists (select from project_jobs j where ${dueJobs(at)})`;

type DueRow = { project_id: string; tenant_id: string };

/** Returns the projects with due jobs, longest waiting first. One look-up each. */
const dueProjects = async ({ db, now }: Work): Promise<DueProject[]> => {
  const { rows } = await sql<DueRow>`
    with recursive w(project_id) as (
      (select project_id from project_jobs where ${OPEN_JOBS} order by project_id limit 1)
      union all
      select (select j.project_id from project_jobs j
        where ${OPEN_JOBS} and j.project_id > w.project_id order by j.project_id limit 1)
      from w where w.project_id is not null)
    select w.project_id, coalesce(p.tenant_id, w.project_id) as tenant_id
    from w cross join lateral (
      select due_at from project_jobs j where j.project_id = w.project_id and ${dueJobs(now)}
      order by j.due_at limit 1) d
    left join projects p on p.id = w.project_id
    order by d.due_at`.execute(db);
  return rows.map(({ project_id, tenant_id }) => ({ projectId: project_id, tenantId: tenant_id }));
};

/** `due`: exact time since when. */
type Row = JobRow & { due: string };

/** Maximum number of attempts per step. */
const ATTEMPTS_MAX = RETRY_DELAYS_MS.length + 1;
/** Time after which a step whose process has died is retried, in ms after it began. */
export const LEASE_MS = 60_000;

type JobStepParts = {
  transact: Transact;
  onError: (error: unknown, jobId: string) => void;
  /** Every kind of long work. */
  kinds: readonly JobKind[];
};

/** Performs the steps of projects' long-running work, tenants in turns. */
export class JobSteps {
  readonly #parts: JobStepParts;
  readonly #schedule = new JobSchedule();
  /** Jobs that wait for others: for how long at a time by now, and until when, in ms. */
  readonly #waiting = new Map<string, { waitMs: number; untilMs: number }>();
  /** Claims whose step was rolled back by an outage while their attempt is still counted. */
  #undone: Row[] = [];

  constructor(parts: JobStepParts) {
    this.#parts = parts;
  }

  /**
   * Performs one step of the next tenant's longest waiting job, and stores its result in the same
   * transaction. The attempt is counted before, in a transaction of its own, so that a step that crashes its
   * process does so `ATTEMPTS_MAX` times at most. A step that throws is rolled back and retried later; an
   * outage does not count as an attempt, and if it prevents taking the attempt back too, that is made up for
   * first. It does count when the step has computed for so long that PostgreSQL may have ended its
   * transaction for that, and when a statement of it took all the time that it may.
   * @returns whether there was one
   * @throws the outage that rolled a step back
   */
  async step(): Promise<boolean> {
    await this.#uncountAttempts();
    const { transact, kinds } = this.#parts;
    const claimed = await transact((work) => claimNext(work, this.#schedule, kinds));
    if (!claimed) return this.#rest();
    const startedMs = performance.now();
    try {
      await this.#try(claimed.row);
    } finally {
      this.#schedule.took(claimed.tenantId, performance.now() - startedMs);
    }
    return true;
  }

  /** Waits for the next of the jobs that wait for others. @returns whether there may be one */
  async #rest(): Promise<boolean> {
    const nowMs = performance.now();
    // It has ended, or another worker has taken it.
    for (const [id, { untilMs }] of this.#waiting) if (untilMs + GONE_MS < nowMs) this.#waiting.delete(id);
    if (this.#waiting.size === 0) return false;
    const nextMs = Math.min(...Array.from(this.#waiting.values(), ({ untilMs }) => untilMs)) - nowMs;
    // Other jobs may come meanwhile.
    await delay(Math.max(FIRST_WAIT_MS, Math.min(LOOK_EVERY_MS, nextMs)));
    return true;
  }

  /** Returns how long a job waits before its next step, in ms: ever longer while it waits for others. */
  #waitOf({ id }: Row, { isWaiting = false }: { isWaiting?: boolean }): number {
    const before = this.#waiting.get(id);
    if (!isWaiting) this.#waiting.delete(id);
    if (!isWaiting) return 0;
    const waitMs = before ? Math.min(LONGEST_WAIT_MS, 2 * before.waitMs) : FIRST_WAIT_MS;
    this.#waiting.set(id, { waitMs, untilMs: performance.now() + waitMs });
    return waitMs;
  }

  async #try(claimed: Row): Promise<void> {
    const { transact, onError, kinds } = this.#parts;
    const sinceMs = threadCpuMs();
    const startedMs = performance.now();
    try {
      if (claimed.attempts > ATTEMPTS_MAX)
        throw new DomainError("INTERNAL_ERROR", `the process died in this step, in ${ATTEMPTS_MAX} attempts`);
      const isSnapshot = kinds.some(({ kind, isSnapshot: is }) => kind === claimed.kind && is === true);
      await transact(async (work) => {
        if (isSnapshot) await asOneMessage(work.db, WRITING_SNAPSHOT);
        const row = await lockClaimed(work, claimed);
        if (!row) return;
        const step = await runStep(work, row, kinds);
        if ("state" in step) await requeue(work, row, { ...step, waitMs: this.#waitOf(row, step) });
        else await finish(work, row, textOf(step));
      });
    } catch (error) {
      const isTooSlow = isCancelled(error) && performance.now() - startedMs >= STEP.statementMs;
      const isOutage = !isTooSlow && outageOf(error) !== undefined;
      const ms = isOutage ? starvedMs(sinceMs) : undefined;
      if (isOutage && ms === undefined) {
        this.#undone.push(claimed);
        throw error;
      }
      onError(error, claimed.id);
      const cause = ms === undefined ? error : new Error(tookTooLong(ms));
      await transact((work) => giveUpOrRetry(work, claimed, cause));
    }
  }

  /** Uncounts the attempts of an outage, and makes their jobs due; jobs that others have continued stay. */
  async #uncountAttempts(): Promise<void> {
    if (this.#undone.length === 0) return;
    await this.#parts.transact(async ({ db, now }) => {
      for (const row of this.#undone)
        await sql`
          update project_jobs set attempts = attempts - 1, due_at = ${now.toISOString()}::timestamptz
          where ${isStill(row)}`.execute(db);
    });
    this.#undone = [];
  }
}

/** Times until the next step of a job that waits for others, in ms: each twice as long as the one before. */
const FIRST_WAIT_MS = 20;
const LONGEST_WAIT_MS = 200;
/** How often others are looked for while jobs wait, in ms. */
const LOOK_EVERY_MS = 50;
/** How long after its time a waiting job that is not due is forgotten, in ms. */
const GONE_MS = 1_000;

const tookTooLong = (ms: number): string =>
  `the step computed for ${Math.round(ms)} ms, and its transaction was lost meanwhile`;

/** How long a job of an unknown kind waits for a worker that knows it, in ms; then it fails. */
const UNKNOWN_KEPT_MS = 86_400_000;

/** Claims the next tenant's job; others may just have taken the last one of a project. */
const claimNext = async (
  work: Work,
  own: JobSchedule,
  kinds: readonly JobKind[],
): Promise<{ row: Row; tenantId: string } | undefined> => {
  for (const due of own.order(await dueProjects(work))) {
    const row = await claim(work, due, kinds);
    if (row) return { row, tenantId: due.tenantId };
  }
  return undefined;
};

/**
 * Counts an attempt and locks the job for the duration of the lease; longer while the step has the row
 * locked. Kinds that only a newer version knows are left to its workers, for UNKNOWN_KEPT_MS.
 */
const claim = async (
  { db, now }: Work,
  { projectId }: DueProject,
  kinds: readonly JobKind[],
): Promise<Row | undefined> => {
  const known = `{${kinds.map(({ kind }) => kind).join(",")}}`;
  const given = new Date(now.getTime() - UNKNOWN_KEPT_MS).toISOString();
  const leaseEnd = new Date(now.getTime() + LEASE_MS).toISOString();
  const found = await sql<Row>`
    update project_jobs j set attempts = j.attempts + 1, due_at = ${leaseEnd}::timestamptz
    from (
      select project_id, id from project_jobs
      where project_id = ${projectId} and status in ('QUEUED', 'RUNNING')
        and due_at <= ${now.toISOString()}::timestamptz
        and (kind = any(${known}::text[]) or created_at <= ${given}::timestamptz)
      order by due_at limit 1 for update skip locked) as d
    where j.project_id = d.project_id and j.id = d.id
    returning j.*, j.due_at::text as due`.execute(db);
  return found.rows[0];
};

/** Matches the job as long as nobody has continued or cancelled it since it was claimed. */
const isStill = ({ project_id, id, attempts, due }: Row) => sql`
  project_id = ${project_id} and id = ${id} and status in ('QUEUED', 'RUNNING')
    and attempts = ${attempts} and due_at = ${due}::timestamptz`;

const lockClaimed = async ({ db }: Work, claimed: Row): Promise<Row | undefined> => {
  const found = await sql<Row>`
    select *, due_at::text as due from project_jobs where ${isStill(claimed)} for update`.execute(db);
  return found.rows[0];
};

const runStep = async (work: Work, row: Row, kinds: readonly JobKind[]): Promise<Step> => {
  const kind = kinds.find((one) => one.kind === row.kind);
  if (!kind) throw new DomainError("INTERNAL_ERROR", `unknown kind of job: ${row.kind}`);
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

const textOf = (step: { result: Json } | { resultText: string }): string =>
  "result" in step ? JSON.stringify(step.result) : step.resultText;

const finish = async ({ db, now }: Work, { id, project_id }: Row, text: string): Promise<void> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  await sql`
    update project_jobs set status = 'SUCCEEDED', attempts = 0, progress = 100, error = null, state = '{}',
      result = ${text}::jsonb, finished_at = ${at}, updated_at = ${at}
    where project_id = ${project_id} and id = ${id}`.execute(db);
};

/** Requeued last, so that jobs alternate. */
const requeue = (
  { db, now }: Work,
  { id, project_id }: Row,
  { state, progress, waitMs }: { state: Json; progress: number; waitMs: number },
): Promise<unknown> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  const dueAt = new Date(now.getTime() + waitMs).toISOString();
  return sql`
    update project_jobs set status = 'RUNNING', attempts = 0, error = null,
      state = ${JSON.stringify(state)}::jsonb, progress = ${Math.min(99, Math.floor(progress))},
      due_at = ${dueAt}::timestamptz, updated_at = ${at}
    where project_id = ${project_id} and id = ${id}`.execute(db);
};

const giveUpOrRetry = async ({ db, now }: Work, row: Row, error: unknown): Promise<void> => {
  const message = (error instanceof Error ? error.message : String(error)).slice(0, 500);
  const isFinal = error instanceof DomainError || row.attempts >= ATTEMPTS_MAX;
  const dueAt = new Date(now.getTime() + (RETRY_DELAYS_MS[row.attempts - 1] ?? 0)).toISOString();
  await sql`
    update project_jobs set error = ${message}, due_at = ${dueAt}::timestamptz,
      status = ${isFinal ? "FAILED" : row.status}, updated_at = ${now.toISOString()}::timestamptz,
      finished_at = ${isFinal ? now.toISOString() : null}::timestamptz
    where ${isStill(row)}`.execute(db);
};
