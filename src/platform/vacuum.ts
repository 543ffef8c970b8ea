import { setImmediate as turn } from "node:timers/promises";
import type { SqlEntityManager } from "@mikro-orm/sql";
import { sql } from "kysely";

/**
 * Tables that PostgreSQL's autovacuum would take, by its default thresholds, the most changed first. Counts
 * of changes do not outlive an engine within the process: tables that have grown by a fifth since their last
 * statistics belong to them, too.
 *
 * @see https://www.postgresql.org/docs/17/routine-vacuuming.html#AUTOVACUUM
 */
const CHANGED = sql<{ name: string }>`
  select format('%I.%I', s.schemaname, s.relname) as name
  from pg_stat_all_tables s
  join pg_class c on c.oid = s.relid and c.relkind = 'r' and c.relpersistence = 'p'
  cross join lateral (
    select greatest(c.reltuples, 0) as rows,
      pg_relation_size(c.oid) / current_setting('block_size')::int as pages
  ) size
  where s.n_dead_tup > 50 + 0.2 * rows
    or s.n_ins_since_vacuum > 1000 + 0.2 * rows
    or s.n_mod_since_analyze > 50 + 0.1 * rows
    or pages > 1.2 * c.relpages
  order by s.n_dead_tup + s.n_mod_since_analyze + pages desc`;

/**
 * Frees dead rows and updates the planner's statistics where much has changed, a table at a time: other
 * statements of an engine with one connection are served in between.
 * @returns the tables, as `schema.table`
 */
export const vacuumChanged = async (em: SqlEntityManager): Promise<string[]> => {
  const db = em.fork().getKysely();
  const { rows } = await CHANGED.execute(db);
  for (const { name } of rows) {
    // A part of a table that was dropped meanwhile is missing.
    const { rows: found } = await sql`select 1 where to_regclass(${name}) is not null`.execute(db);
    if (found.length > 0) await sql`vacuum analyze ${sql.raw(name)}`.execute(db);
    await turn();
  }
  return rows.map(({ name }) => name);
};
