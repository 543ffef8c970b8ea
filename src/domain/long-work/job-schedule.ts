import { type RawBuilder, sql } from "kysely";
import type { Work } from "../kernel/work.ts";

/** A project with due jobs. */
export type DueProject = { projectId: string; tenantId: string };

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
export const dueProjects = async ({ db, now }: Work): Promise<DueProject[]> => {
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
