import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/** Returns the ids of all projects, or of one if there is it. */
export const listProjectIds = async ({ db }: Work, projectId: string | undefined): Promise<string[]> => {
  const { rows } = await sql<{ id: string }>`
    select id::text as id from projects
    where ${projectId === undefined ? sql`true` : sql`id = ${projectId}::uuid`} order by id`.execute(db);
  return rows.map(({ id }) => id);
};
