import { type RawBuilder, sql } from "kysely";
import { NIL_ID } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";

/** A player with something due, and its position in the page order. */
export type Due = { at: string; projectId: string; playerId: string };

/** Players per page. */
export const DUE_PAGE = 200;

const BEGINNING: Due = {
  at: "-infinity",
  projectId: NIL_ID,
  playerId: NIL_ID,
};

/**
 * Finds the next players, of any project, with a row in `table` whose `column` (default `expires_at`) has
 * passed, by its index on (column, project_id, player_id). `where`: the predicate of that index.
 */
export const findDue = async (
  { db, now }: Work,
  {
    table,
    column = "expires_at",
    where = sql`true`,
  }: { table: string; column?: string; where?: RawBuilder<unknown> },
  after: Due = BEGINNING,
): Promise<Due[]> => {
  const at = sql.ref(column);
  const { rows } = await sql<Due>`
    select ${at}::text as at, project_id as "projectId", player_id as "playerId" from ${sql.ref(table)}
    where ${where} and ${at} <= ${now.toISOString()}::timestamptz
      and (${at}, project_id, player_id)
        > (${after.at}::timestamptz, ${after.projectId}::uuid, ${after.playerId}::uuid)
    group by ${at}, project_id, player_id
    order by ${at}, project_id, player_id limit ${DUE_PAGE}`.execute(db);
  return rows;
};

/** Groups a page by project: the players of one project are changed in one transaction. */
export const byProject = (page: readonly Due[]): Map<string, string[]> => {
  const groups = new Map<string, Set<string>>();
  for (const { projectId, playerId } of page) {
    const group = groups.get(projectId) ?? new Set();
    groups.set(projectId, group.add(playerId));
  }
  return new Map([...groups].map(([projectId, ids]) => [projectId, [...ids]]));
};
