import type { Kysely } from "kysely";

/** Queries are written as SQL text, so their rows are typed where they are read. */
export type Db = Kysely<Record<string, never>>;
