import { type RawBuilder, sql } from "kysely";

/**
 * CHANGED: an event has another status. ERASED: so has its content. MERGED: a merge of players. REWARD: the
 * grant of a reward has another status.
 */
export type WarehouseChange = "CHANGED" | "ERASED" | "MERGED" | "REWARD";

/**
 * A statement that notes what has changed since it may have been written into a file for a warehouse: its
 * next step tells of it. Notes nothing of projects that go into no warehouse.
 * @param refs a query of the column ref: ids of events, merges or grants
 */
export const insertWarehouseChanges = (
  projectId: string,
  kind: WarehouseChange,
  refs: RawBuilder<unknown>,
): RawBuilder<unknown> => sql`
  insert into warehouse_changes (project_id, kind, ref)
  select ${projectId}::uuid, ${kind}::text, n.ref from (${refs}) n
  where exists (
    select from warehouse_projects w where w.project_id = ${projectId}::uuid and not w.is_forgotten)`;

/**
 * As above, of several projects.
 * @param refs a query of the columns project_id and ref
 */
export const insertWarehouseChangesOf = (
  kind: WarehouseChange,
  refs: RawBuilder<unknown>,
): RawBuilder<unknown> => sql`
  insert into warehouse_changes (project_id, kind, ref)
  select n.project_id, ${kind}::text, n.ref from (${refs}) n
  join warehouse_projects w on w.project_id = n.project_id and not w.is_forgotten`;
