import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { DESIGNERS } from "../../kernel/caller.ts";
import { DomainError, notFound } from "../../kernel/errors.ts";
import { countRows, type Work } from "../../kernel/work.ts";
import { jobKind, queueJob } from "../../long-work/project-jobs.ts";
import { findPlan } from "../../progression/plan.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import { refreshPage } from "./pages.ts";

const State = z.object({
  after: z.string().default(NIL_ID),
  evaluated: z.number().default(0),
  moved: z.number().default(0),
  /** Number of players at the start, for the progress; counted up to a bound. */
  total: z.number().optional(),
});

/** Evaluates every player of a project after its dynamic segments have changed. */
export const segmentRefresh = jobKind({
  kind: "SEGMENT_REFRESH",
  access: { scope: "config:manage", roles: DESIGNERS },
  params: z.object({}),
  step: async (work, { projectId, state }) => {
    const { after, ...sums } = State.parse(state);
    const plan = await findPlan(work, projectId);
    if (!plan) throw notFound("project");
    const total = sums.total ?? (await countRows(work, sql`players where project_id = ${projectId}`)).total;
    const page = await refreshPage(work, plan, { after, which: "ALL" });
    const evaluated = sums.evaluated + page.evaluated;
    const moved = sums.moved + page.moved;
    if (page.next === undefined) return { result: { evaluated, moved } };
    return {
      state: { after: page.next, evaluated, moved, total },
      progress: (100 * evaluated) / Math.max(total, evaluated),
    };
  },
});

/** Interval at which time-dependent segments are evaluated, in ms. */
const SWEEP_EVERY_MS = 15 * 60_000;
/** Maximum number of noted changes, and so of projects, per transaction. */
export const CHANGES_AT_ONCE = 100;
/** When projects without segments that depend on time are swept. */
const NEVER = "infinity";
/** Instead of a digest, where a job could not be queued; and when that is tried again, in ms. */
const UNQUEUED = "";
const RETRY_MS = 5_000;

/** Digest of a project's dynamic segments: another one after each change that concerns players. */
const DIGEST = sql`md5(string_agg(id::text || ':' || version, ',' order by id))`;

/**
 * Whether segments have changed or a project's players are due. Both are look-ups in an index, whatever the
 * number of projects.
 */
export const areSegmentsDue = (at: Date): RawBuilder<unknown> => sql`(
  exists (select from segment_changes) or
  exists (select from segment_sweeps where due_at <= ${at.toISOString()}::timestamptz))`;

/**
 * Takes noted changes of segments: whatever made them (an operation, an import, a copy into a sandbox), a
 * trigger noted them in its commit. Queues a SEGMENT_REFRESH for each project whose dynamic segments differ
 * from those with which its players were last evaluated. Works over all projects.
 * @returns the number of changes taken: with CHANGES_AT_ONCE there may be more
 */
export const queueSegmentRefreshes = async (work: Work): Promise<number> => {
  // The digests are read by a later statement: it sees every change whose note this one has taken.
  const taken = await sql<{ project_id: string }>`
    with taken as materialized (
      select project_id, seq from segment_changes
      order by project_id, seq limit ${CHANGES_AT_ONCE} for update skip locked)
    delete from segment_changes c using taken t
    where c.project_id = t.project_id and c.seq = t.seq returning c.project_id`.execute(work.db);
  const ids = [...new Set(taken.rows.map((row) => row.project_id))];
  if (ids.length === 0) return 0;
  const found = await sql<{ project_id: string; digest: string }>`
    with d as (
      select project_id, ${DIGEST} as digest
      from definitions where project_id = any(${`{${ids.join(",")}}`}::uuid[])
        and kind = 'segment' and status = 'ACTIVE' and definition->>'kind' = 'DYNAMIC'
      group by project_id)
    select d.project_id, d.digest from d
    join projects p on p.id = d.project_id and p.deleted_at is null
    left join segment_sweeps s on s.project_id = d.project_id
    where s.definitions is distinct from d.digest
    order by d.project_id`.execute(work.db);
  for (const { project_id: projectId, digest } of found.rows) await queueRefresh(work, projectId, digest);
  return taken.rows.length;
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
    // The project has reached its limit of jobs.
    const retryAt = new Date(work.now.getTime() + RETRY_MS).toISOString();
    await sql`
      update segment_sweeps set definitions = ${UNQUEUED}, due_at = ${retryAt}::timestamptz
      where project_id = ${projectId}`.execute(work.db);
  }
};

/** Has a project's players evaluated at once for time-dependent segments, if it has any. */
export const sweepSoon = async ({ db, serverNow }: Work, projectId: string): Promise<void> => {
  await sql`
    update segment_sweeps set due_at = ${serverNow.toISOString()}::timestamptz, after_player = null
    where project_id = ${projectId}::uuid and due_at < 'infinity'`.execute(db);
};

type DueRow = { project_id: string; definitions: string; after_player: string | null; is_there: boolean };

/**
 * Evaluates one page of players of the project that has waited longest, for time-dependent segments. Works
 * over all projects, and removes deleted ones.
 * @returns whether there was one
 */
export const sweepSegments = async (work: Work): Promise<boolean> => {
  const due = await sql<DueRow>`
    select project_id, definitions, after_player, exists (
        select 1 from projects p where p.id = project_id and p.deleted_at is null) as is_there
    from segment_sweeps where due_at <= ${work.now.toISOString()}::timestamptz
    order by due_at limit 1 for update skip locked`.execute(work.db);
  const [row] = due.rows;
  if (!row) return false;
  if (!row.is_there) {
    await sql`delete from segment_sweeps where project_id = ${row.project_id}`.execute(work.db);
    return true;
  }
  const { dueAt, after } = await sweepRow(work, row);
  await sql`
    update segment_sweeps set due_at = ${dueAt}::timestamptz, after_player = ${after}
    where project_id = ${row.project_id}`.execute(work.db);
  return true;
};

/** Does what is due for one project. @returns when it is due again, and where that begins */
const sweepRow = async (work: Work, row: DueRow): Promise<{ dueAt: string; after: string | null }> => {
  const at = (ms: number): string => new Date(work.now.getTime() + ms).toISOString();
  if (row.definitions === UNQUEUED) {
    await sql`insert into segment_changes (project_id) values (${row.project_id})`.execute(work.db);
    return { dueAt: NEVER, after: null };
  }
  const plan = await findPlan(work, row.project_id);
  if (!plan?.segmentIndex.dynamic.some(({ isTimed }) => isTimed)) return { dueAt: NEVER, after: null };
  const { next } = await refreshPage(work, plan, { after: row.after_player ?? NIL_ID, which: "TIMED" });
  // Queued behind other due projects, so that projects alternate.
  return { dueAt: at(next === undefined ? SWEEP_EVERY_MS : 0), after: next ?? null };
};
