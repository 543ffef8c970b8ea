import { sql } from "kysely";
import { COMMIT_MS } from "./roll-up.ts";
import { idFloor, NIL_ID } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";

/** Returns the ids of all projects, or of one if there is it. */
export const listProjectIds = async ({ db }: Work, projectId: string | undefined): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select id::text as id from projects
    where ${projectId === undefined ? sql`true` : sql`id = ${projectId}::uuid`} order by id`.execute(db);
  return rows.map(({ id }) => id);
};

const TABLES = [
  { table: "uncounted_events", id: "event_id" },
  { table: "uncounted_gains", id: "gain_id" },
] as const;

/**
 * Deletes up to `limit` rows of each table that tells rollups what stopped to count, of projects whose
 * rollups are halted. Rollups that are built anew need none of those: they ask the events themselves.
 * @returns whether there may be more
 */
export const forgetUncounted = async ({ db }: Work, limit: number): Promise<boolean> => {
  let isMore = false;
  for (const { table, id } of TABLES) {
    const column = sql.ref(id);
    // A row that this snapshot sees of a project that it sees halted was committed before any new beginning.
    const { rows } = await sql`
      with old as materialized (
        select o.project_id, o.id from analytics_rollups r cross join lateral (
          select project_id, ${column} as id from ${sql.table(table)}
          where project_id = r.project_id limit ${limit} for update skip locked) o
        where r.halted_at is not null limit ${limit})
      delete from ${sql.table(table)} t using old
      where t.project_id = old.project_id and t.${column} = old.id returning 1`.execute(db);
    isMore ||= rows.length === limit;
  }
  return isMore;
};

/** A project's rollups move on when so many events are behind the watermark, or after so long, in ms. */
const EVENTS_BEHIND = 5_000;
const BEHIND_MS = 10 * 60_000;

/**
 * Returns projects whose rollups should move on, those first that waited longest. Each question reads the
 * events behind the watermark, so that there should not be many.
 */
export const findDueRollups = async ({ db, serverNow }: Work, limit: number): Promise<string[]> => {
  const nowMs = serverNow.getTime();
  const until = idFloor(nowMs - COMMIT_MS);
  const behind = sql`tracked_events e where e.project_id = p.id
    and e.id > coalesce(r.watermark, ${NIL_ID}::uuid) and e.id < ${until}::uuid`;
  const gains = sql`coalesce(r.gains_watermark, ${NIL_ID}::uuid)`;
  const gained = sql`ledger_entries l where l.project_id = p.id and l.amount > 0 and l.reverses is null
    and l.tx_id is null and l.asset in ('XP', 'CURRENCY') and l.id > ${gains} and l.id < ${until}::uuid`;
  const awarded = sql`badge_awards b where b.project_id = p.id and b.action = 'AWARDED' and b.id > ${gains}
    and b.id < ${until}::uuid`;
  const { rows } = await sql<{ id: string }>`
    select p.id::text as id from projects p left join analytics_rollups r on r.project_id = p.id
    where coalesce(r.halted_at is null, true) and case
      when r.rolled_up_at is null or r.rolled_up_at < ${new Date(nowMs - BEHIND_MS).toISOString()}
        then exists (select from ${behind})
          or exists (select from uncounted_events u where u.project_id = p.id and u.event_id <= r.watermark)
          or exists (select from uncounted_gains u where u.project_id = p.id)
          or exists (select from analytics_zones z where z.project_id = p.id and z.is_new)
          or exists (select from ${gained}) or exists (select from ${awarded}) or r.gains_watermark is null
      else (select count(*) from (select from ${behind} limit ${EVENTS_BEHIND}) c) = ${EVENTS_BEHIND}
        or (select count(*) from (select from ${gained} limit ${EVENTS_BEHIND}) c) = ${EVENTS_BEHIND} end
    order by r.rolled_up_at nulls first, p.id limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
};
