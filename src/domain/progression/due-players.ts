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
 * Rows of players in `table` are due when `column` (default `expires_at`) has passed; it has an index on
 * (column, project_id, player_id). `where`: the predicate of that index.
 */
export type DueRows = { table: string; column?: string; where?: RawBuilder<unknown> };

const columnOf = ({ column = "expires_at" }: DueRows): RawBuilder<unknown> => sql.ref(column);

const fromDue = (due: DueRows, now: Date): RawBuilder<unknown> => sql`
  from ${sql.ref(due.table)}
  where ${due.where ?? sql`true`} and ${columnOf(due)} <= ${now.toISOString()}::timestamptz`;

/** Returns the condition that a player of any project has such a row. */
export const arePlayersDue =
  (due: DueRows) =>
  (now: Date): RawBuilder<unknown> =>
    sql`exists (select ${fromDue(due, now)})`;

/** Finds the next players, of any project, with such a row. */
export const findDue = async ({ db, now }: Work, due: DueRows, after: Due = BEGINNING): Promise<Due[]> => {
  const at = columnOf(due);
  const { rows } = await sql<Due>`
    select ${at}::text as at, project_id as "projectId", player_id as "playerId" ${fromDue(due, now)}
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
