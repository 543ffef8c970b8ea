import { type RawBuilder, sql } from "kysely";
import { LOCK_SPACES, type Work } from "../work.ts";

/**
 * A statement that notes events which from now on do not count: rejected or reverted ones. Whoever keeps
 * numbers of events takes them from there. It comes before, or in one statement with, what marks the events.
 * @param events a query of the columns project_id and event_id; those marked before are left out
 */
export const insertUncounted = (events: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  insert into uncounted_events (project_id, event_id)
  select n.project_id, n.event_id from (${events}) n
  where not exists (select 1 from event_results r where r.project_id = n.project_id
    and r.event_id = n.event_id and r.status in ('REJECTED', 'REVERTED'))
  on conflict do nothing`;

/** Locks a project's rollups until the end of the transaction. */
export const lockRollups = async ({ db }: Work, projectId: string): Promise<void> => {
  await sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.ROLLUPS}::int, hashtext(${projectId}))`.execute(db);
};

/** As `lockRollups`, unless another transaction has them. Returns whether they are locked. */
export const tryLockRollups = async ({ db }: Work, projectId: string): Promise<boolean> => {
  const { rows } = await sql<{ mine: boolean }>`
    select pg_try_advisory_xact_lock(${LOCK_SPACES.ROLLUPS}::int, hashtext(${projectId})) as mine`.execute(
    db,
  );
  return rows[0]!.mine;
};

/**
 * Notes awards of badges that are about to be deleted, as gains that do not count any more, with the times at
 * which they counted. Waits for whoever moves the project's rollups on: an award that was reverted is told
 * of once.
 * @param players a list of ids
 */
export const noteDeletedAwards = async (
  work: Work,
  projectId: string,
  players: RawBuilder<unknown>,
): Promise<void> => {
  await lockRollups(work, projectId);
  await sql`
    insert into uncounted_gains (project_id, gain_id, metric, key, at)
    select b.project_id, b.id, 'badgesEarned', '', coalesce(e.occurred_at, b.created_at)
    from badge_awards b
    left join tracked_events e on e.project_id = b.project_id and e.id = b.event_id
    where b.project_id = ${projectId}::uuid and b.player_id = any(${players}) and b.action = 'AWARDED'
      and (not exists (select 1 from event_results r where r.project_id = b.project_id
          and r.event_id = b.event_id and r.status = 'REVERTED')
        or exists (select 1 from uncounted_events u
          where u.project_id = b.project_id and u.event_id = b.event_id))`.execute(work.db);
};
