import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/** A project with jobs that are due. */
export type DueProject = { projectId: string; tenantId: string };

/** What a step costs at least, in ms. */
const LEAST_MS = 1;

/**
 * Whose long work a process goes on with: the tenant's who has had the least time for it since coming
 * (start-time fair queueing), whatever others have queued. What is remembered here decides who goes first,
 * and nothing else: it may be lost.
 */
export class JobTurns {
  /** By the tenant: when its next step would start, in ms, if all tenants were served at the same time. */
  readonly #startsAt = new Map<string, number>();
  #waiting: ReadonlySet<string> = new Set();
  /** The start of the step that was taken last. */
  #at = 0;

  /** @param due in the order in which they wait @returns them in the order of their turns */
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

  /** Counts the time that a step of a tenant's job took. */
  took(tenantId: string, ms: number): void {
    const startsAt = this.#startsAt.get(tenantId) ?? this.#at;
    this.#at = Math.max(this.#at, startsAt);
    this.#startsAt.set(tenantId, startsAt + Math.max(LEAST_MS, ms));
  }
}

type DueRow = { project_id: string; tenant_id: string };

/** The projects with jobs that are due, whose has waited longest first. One look-up for each. */
export const dueProjects = async ({ db, now }: Work): Promise<DueProject[]> => {
  const open = sql.raw(`status in ('QUEUED', 'RUNNING')`);
  const { rows } = await sql<DueRow>`
    with recursive w(project_id) as (
      (select project_id from project_jobs where ${open} order by project_id limit 1)
      union all
      select (select j.project_id from project_jobs j
        where ${open} and j.project_id > w.project_id order by j.project_id limit 1)
      from w where w.project_id is not null)
    select w.project_id, coalesce(p.tenant_id, w.project_id) as tenant_id
    from w cross join lateral (
      select due_at from project_jobs j where j.project_id = w.project_id and ${open}
        and j.due_at <= ${now.toISOString()}::timestamptz order by j.due_at limit 1) d
    left join projects p on p.id = w.project_id
    order by d.due_at`.execute(db);
  return rows.map(({ project_id, tenant_id }) => ({ projectId: project_id, tenantId: tenant_id }));
};
