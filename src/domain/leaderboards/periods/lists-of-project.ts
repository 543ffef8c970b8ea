import { type RawBuilder, sql } from "kysely";

/** Ids of the only list of boards without periods: it has no row of its own before a reset. */
const plainLists = (projectId: string): RawBuilder<unknown> =>
  sql`select period_id from leaderboards where project_id = ${projectId}`;

/** Subquery: the ids of a project's lists that accept scores, including those of boards without periods. */
export const openLists = (projectId: string): RawBuilder<unknown> => sql`
  ${plainLists(projectId)} union
  select id from leaderboard_periods where project_id = ${projectId} and status = 'OPEN'`;

/** Subquery: the ids of all lists of a project that have entries. */
export const allLists = (projectId: string): RawBuilder<unknown> => sql`
  ${plainLists(projectId)} union
  select id from leaderboard_periods where project_id = ${projectId} and status <> 'ARCHIVED'`;
