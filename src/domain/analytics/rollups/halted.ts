import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

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
