import { type RawBuilder, sql } from "kysely";
import type { Work } from "../kernel/work.ts";

/** A player for whom something is due, and the place in the order by which pages are read. */
export type Due = { at: string; projectId: string; playerId: string };

/** Players of one page. */
export const DUE_PAGE = 200;

const BEGINNING: Due = {
  at: "-infinity",
  projectId: "00000000-0000-0000-0000-000000000000",
  playerId: "00000000-0000-0000-0000-000000000000",
};

/**
 * The next players, of any project, who have a row in `table` whose `column` (`expires_at` unless told) is
 * over, by its index on (column, project_id, player_id). `where`: which rows that index holds.
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

/** A page by project: what is done for the players of one project is one transaction. */
export const byProject = (page: readonly Due[]): Map<string, string[]> => {
  const groups = new Map<string, Set<string>>();
  for (const { projectId, playerId } of page) {
    const group = groups.get(projectId) ?? new Set();
    groups.set(projectId, group.add(playerId));
  }
  return new Map([...groups].map(([projectId, ids]) => [projectId, [...ids]]));
};
