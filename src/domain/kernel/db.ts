import { raw } from "@mikro-orm/core";
import { type Kysely, sql } from "kysely";

/**
 * Database role of requests (`RowScope` of work.ts). Cannot log in; the connection's own role assumes it for
 * one transaction. Workers, the relay and ingestion keep the connection's role.
 */
export const WEB_ROLE = "laurel_web";

/**
 * Role of look-ups before a tenant is known (login, keys, OAuth) and of super-admins: accounts, never
 * players.
 */
export const ACCOUNTS_ROLE = "laurel_accounts";

/** Returns the LIKE pattern for text that contains `part`, whatever its characters. */
export const containing = (part: string): string => `%${part.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;

/** A condition of rows that have all of these tags: the library's `$contains` looks for none in place of "null". */
export const hasTags = (tags: readonly string[]) =>
  raw((row) => `${row}.tags @> array(select jsonb_array_elements_text(?::jsonb))`, [JSON.stringify(tags)]);

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
