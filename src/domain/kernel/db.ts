import { type Kysely, sql } from "kysely";

/** Queries are written as SQL text, so their rows are typed where they are read. */
export type Db = Kysely<Record<string, never>>;

/** A table's size on disk with its indexes, in bytes; partitions count for their table. */
export type TableSize = { table: string; bytes: number };

/** Returns the sizes of all tables, the largest first. */
export const readTableSizes = async (db: Db): Promise<TableSize[]> => {
  const { rows } = await sql<{ table: string; bytes: number }>`
    select p.relname as "table", sum(pg_total_relation_size(c.oid)) as bytes
    from pg_class c left join pg_inherits i on i.inhrelid = c.oid
    join pg_class p on p.oid = coalesce(i.inhparent, c.oid)
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'
    group by 1 order by 2 desc, 1`.execute(db);
  return rows;
};
