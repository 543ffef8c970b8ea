import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { WAREHOUSE_WAIT_MS } from "./retention.ts";

const PROJECTS_AT_ONCE = 100;

type Row = { id: string };

/** Deletes rows of some projects from a table, by project and number. @returns how many */
const deleteSome = async (
  { db }: Work,
  table: "warehouse_changes" | "warehouse_parts",
  { projectIds, limit }: { projectIds: string; limit: number },
): Promise<number> => {
  const { rows } = await sql`
    with old as materialized (
      select o.project_id, o.seq from unnest(${projectIds}::uuid[]) as x(id) cross join lateral (
        select project_id, seq from ${sql.table(table)} where project_id = x.id order by seq limit ${limit}) o
      limit ${limit})
    delete from ${sql.table(table)} t using old
    where t.project_id = old.project_id and t.seq = old.seq returning 1`.execute(db);
  return rows.length;
};

/**
 * Forgets up to `limit` rows of projects whose files for a warehouse nobody has tried to write for as long as
 * retention would wait: the warehouse was switched off, and nothing else would read what changes. Each is
 * marked first: from then on no change is noted, nobody goes on with what is left of it, and it is forgotten
 * to its end. At last the project is forgotten too.
 * @param isOff whether there is no warehouse now; else only what was begun is ended
 * @returns whether there may be more
 */
export const forgetStopped = async (
  work: Work,
  { limit, isOff }: { limit: number; isOff: boolean },
): Promise<boolean> => {
  const { db, serverNow } = work;
  const since = sql`${new Date(serverNow.getTime() - WAREHOUSE_WAIT_MS).toISOString()}::timestamptz`;
  const { rows } = await sql<Row>`
    select w.project_id::text as id from warehouse_projects w
    where w.is_forgotten or ${isOff}::boolean and greatest(w.moved_at, w.retry_at, w.leased_until) <= ${since}
    order by w.project_id limit ${sql.lit(PROJECTS_AT_ONCE)} for update skip locked`.execute(db);
  if (rows.length === 0) return false;
  const projectIds = `{${rows.map(({ id }) => id).join(",")}}`;
  await sql`
    update warehouse_projects set is_forgotten = true
    where project_id = any(${projectIds}::uuid[]) and not is_forgotten`.execute(db);
  const changes = await deleteSome(work, "warehouse_changes", { projectIds, limit });
  const parts = await deleteSome(work, "warehouse_parts", { projectIds, limit });
  if (changes + parts === 0)
    await sql`
      delete from warehouse_projects where project_id = any(${projectIds}::uuid[])`.execute(db);
  return true;
};
