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

const ofProject = (due: DueRows, projectId: string, now: Date): RawBuilder<unknown> =>
  sql`${fromDue(due, now)} and project_id = ${projectId}::uuid`;

/** Finds the first players of one project with such a row. */
export const findDueOf = async (
  { db, now }: Work,
  due: DueRows,
  projectId: string,
): Promise<{ playerIds: string[]; rows: number }> => {
  const { rows } = await sql<{ id: string; n: string | number }>`
    select player_id as id, count(*) as n ${ofProject(due, projectId, now)}
    group by player_id order by min(${columnOf(due)}), player_id limit ${DUE_PAGE}`.execute(db);
  return { playerIds: rows.map(({ id }) => id), rows: rows.reduce((sum, { n }) => sum + Number(n), 0) };
};

/** Counts such rows of some players of one project. */
export const countDueOf = async (
  { db, now }: Work,
  due: DueRows,
  { projectId, playerIds }: { projectId: string; playerIds: readonly string[] },
): Promise<number> => {
  const { rows } = await sql<{ n: string | number }>`
    select count(*) as n ${ofProject(due, projectId, now)}
      and player_id = any(${`{${playerIds.join(",")}}`}::uuid[])`.execute(db);
  return Number(rows[0]!.n);
};

/** Selects the times at which such rows of one project are due. */
export const dueTimesOf = (due: DueRows, projectId: string): RawBuilder<unknown> => sql`
  select ${columnOf(due)} as due_at from ${sql.ref(due.table)}
  where ${due.where ?? sql`true`} and project_id = ${projectId}::uuid`;

/** Groups a page by project: the players of one project are changed in one transaction. */
export const byProject = (page: readonly Due[]): Map<string, string[]> => {
  const groups = new Map<string, Set<string>>();
  for (const { projectId, playerId } of page) {
    const group = groups.get(projectId) ?? new Set();
    groups.set(projectId, group.add(playerId));
  }
  return new Map([...groups].map(([projectId, ids]) => [projectId, [...ids]]));
};
