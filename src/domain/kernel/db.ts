import type { Kysely } from "kysely";

/** The tables are spoken to in SQL text, so their rows are typed where they are read. */
export type Db = Kysely<Record<string, never>>;
