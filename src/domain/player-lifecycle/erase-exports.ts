import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { Person } from "../players/person.ts";
import { add, type Counts } from "./erase-rows.ts";

/**
 * Deletes a project's exports of analytics, and the results of its reports: they are compressed, and nobody
 * can tell which of them name the person. To be called when nothing else does any more, so that those made
 * meanwhile go too.
 */
export const eraseExports = async ({ db }: Work, { projectId }: Person, rows: Counts): Promise<void> => {
  // Of runs that are not over too: who writes a result holds its run.
  const cleared = await sql`
    update analytics_report_runs set result = null
    where project_id = ${projectId}::uuid and (result is not null or finished_at is null)
    returning 1`.execute(db);
  add(rows, "analytics_report_runs", cleared.rows.length);
  // In this order: whoever writes pieces holds the export.
  for (const table of ["analytics_exports", "analytics_export_pieces"]) {
    const gone = await sql`
      delete from ${sql.table(table)} where project_id = ${projectId}::uuid returning 1`.execute(db);
    add(rows, table, gone.rows.length);
  }
};
