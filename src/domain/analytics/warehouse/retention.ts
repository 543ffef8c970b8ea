import { type RawBuilder, sql } from "kysely";

/**
 * How long retention waits for files for a warehouse that do not come on, in ms: whoever switches the
 * warehouse off, or leaves it broken for so long, gets files without the effects that are deleted meanwhile.
 */
export const WAREHOUSE_WAIT_MS = 7 * 86_400_000;

/**
 * A condition: events of a project before an id are to be in files, with their effects. `w.project_id` as the
 * project means any. It stands in statements with tables of their own: `w`, `of_w` and `e` are its names.
 */
export const waitsForWarehouse = (
  serverNow: Date,
  projectId: RawBuilder<unknown>,
  beforeId: RawBuilder<unknown>,
): RawBuilder<boolean> => sql`exists (
  select from warehouse_projects w join projects of_w on of_w.id = w.project_id and of_w.deleted_at is null
  where w.project_id = ${projectId}
    and w.moved_at > ${new Date(serverNow.getTime() - WAREHOUSE_WAIT_MS).toISOString()}::timestamptz
    and exists (select from tracked_events e
      where e.project_id = w.project_id and e.id > w.cursor and e.id < ${beforeId}))`;
