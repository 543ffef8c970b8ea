import { sql } from "kysely";
import { DomainError } from "../../kernel/errors.ts";
import { queueJob } from "../../long-work/project-jobs.ts";
import type { Work } from "../../kernel/work.ts";
import { FIRST_PLAYER, planOf, refreshPage } from "./pages.ts";
import { segmentRefresh } from "./refresh-job.ts";

/** Interval at which time-dependent segments are evaluated, in ms. */
export const SWEEP_EVERY_MS = 15 * 60_000;
/** Maximum number of projects per run. */
const PROJECTS_MAX = 100;

/**
 * Finds projects whose dynamic segments differ from those with which their players were last evaluated,
 * whatever changed them (an operation, an import, a copy into a sandbox), and queues a SEGMENT_REFRESH for
 * each. Works over all projects.
 * @returns the number of projects found
 */
export const queueSegmentRefreshes = async (work: Work): Promise<number> => {
  const found = await sql<{ project_id: string; digest: string }>`
    with d as (
      select project_id, md5(string_agg(id::text || ':' || version, ',' order by id)) as digest
      from definitions where kind = 'segment' and status = 'ACTIVE' and definition->>'kind' = 'DYNAMIC'
      group by project_id)
    select d.project_id, d.digest from d
    join projects p on p.id = d.project_id and p.deleted_at is null
    left join segment_sweeps s on s.project_id = d.project_id
    where s.definitions is distinct from d.digest
    order by d.project_id limit ${PROJECTS_MAX}`.execute(work.db);
  for (const { project_id: projectId, digest } of found.rows) await queueRefresh(work, projectId, digest);
  return found.rows.length;
};

const queueRefresh = async (work: Work, projectId: string, digest: string): Promise<void> => {
  const dueAt = new Date(work.now.getTime() + SWEEP_EVERY_MS).toISOString();
  // The worker that makes this change queues the job: exactly one of several.
  const mine = await sql`
    insert into segment_sweeps as s (project_id, definitions, due_at)
    values (${projectId}, ${digest}, ${dueAt}::timestamptz)
    on conflict (project_id) do update set definitions = excluded.definitions, due_at = excluded.due_at,
      after_player = null
    where s.definitions <> excluded.definitions returning 1`.execute(work.db);
  if (mine.rows.length === 0) return;
  // A job that has not begun will use the latest segments.
  const waiting = await sql`
    select 1 from project_jobs where project_id = ${projectId} and kind = ${segmentRefresh.kind}
      and status = 'QUEUED' limit 1`.execute(work.db);
  if (waiting.rows.length > 0) return;
  try {
    await queueJob(work, projectId, { kind: segmentRefresh, params: {}, createdBy: "system" });
  } catch (error) {
    if (!(error instanceof DomainError)) throw error;
    // The project has reached its limit of jobs: found again later.
    await sql`delete from segment_sweeps where project_id = ${projectId}`.execute(work.db);
  }
};

/**
 * Evaluates one page of players of the project that has waited longest, for time-dependent segments. Works
 * over all projects, and removes deleted ones.
 * @returns whether there was one
 */
export const sweepSegments = async (work: Work): Promise<boolean> => {
  const due = await sql<{ project_id: string; after_player: string | null; is_there: boolean }>`
    select project_id, after_player, exists (
        select 1 from projects p where p.id = project_id and p.deleted_at is null) as is_there
    from segment_sweeps where due_at <= ${work.now.toISOString()}::timestamptz
    order by due_at limit 1 for update skip locked`.execute(work.db);
  const [row] = due.rows;
  if (!row) return false;
  if (!row.is_there) {
    await sql`delete from segment_sweeps where project_id = ${row.project_id}`.execute(work.db);
    return true;
  }
  const next = await sweepPage(work, row.project_id, row.after_player ?? FIRST_PLAYER);
  // Queued behind other due projects, so that projects alternate.
  const dueAt = new Date(work.now.getTime() + (next === undefined ? SWEEP_EVERY_MS : 0));
  await sql`
    update segment_sweeps set due_at = ${dueAt.toISOString()}::timestamptz, after_player = ${next ?? null}
    where project_id = ${row.project_id}`.execute(work.db);
  return true;
};

const sweepPage = async (work: Work, projectId: string, after: string): Promise<string | undefined> => {
  const plan = await planOf(work, projectId);
  if (!plan?.segmentIndex.dynamic.some(({ isTimed }) => isTimed)) return undefined;
  return (await refreshPage(work, plan, { after, which: "TIMED" })).next;
};
