import { sql } from "kysely";
import { timeOfId, ranksPart } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";

/**
 * Returns the age of a project's oldest committed change of boards that is not in the rank index yet, in
 * whole seconds; 0 when there is none. One index look-up.
 */
export const secondsBehind = async ({ db, serverNow }: Work, projectId: string): Promise<number> => {
  const { rows } = await sql<{ id: string | null }>`
    select outbox_ids[1] as id from outbox_q
    where project_id = ${projectId}::uuid and part = ${ranksPart(projectId)}::smallint
    order by seq limit 1`.execute(db);
  const id = rows[0]?.id ?? null;
  return id === null ? 0 : Math.max(0, Math.floor((serverNow.getTime() - timeOfId(id)) / 1_000));
};
