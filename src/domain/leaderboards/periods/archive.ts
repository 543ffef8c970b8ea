import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { Leaderboard } from "../../progression/leaderboard.ts";
import { keepPeriodsOf } from "../../evaluation/boards/period.ts";
import type { PeriodOf } from "./period-row.ts";

/** Maximum number of entries deleted per step. */
const ARCHIVE_CHUNK = 10_000;

export type BoardOf = { projectId: string; leaderboardId: string };

/**
 * Returns the oldest closed list of a board beyond the windows that it keeps, if there is one: its entries are
 * to be deleted, its results stay.
 */
export const listToArchive = async (
  work: Work,
  { projectId, leaderboardId }: BoardOf,
): Promise<PeriodOf | undefined> => {
  const leaderboard = await work.em.findOneOrFail(Leaderboard, { projectId, id: leaderboardId });
  const kept = keepPeriodsOf(leaderboard.definition.period);
  const found = await sql<{ id: string }>`
    select id from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${leaderboardId} and status = 'CLOSED'
      and starts_at <= (
        select starts_at from leaderboard_periods
        where project_id = ${projectId} and leaderboard_id = ${leaderboardId} and status = 'CLOSED'
        group by starts_at order by starts_at desc nulls last offset ${kept} limit 1)
    order by starts_at limit 1`.execute(work.db);
  const [list] = found.rows;
  return list && { projectId, periodId: list.id };
};

/** Deletes some of a closed list's entries. @returns whether there may be more */
export const deleteChunk = async ({ db }: Work, { projectId, periodId }: PeriodOf): Promise<boolean> => {
  const ofList = sql`project_id = ${projectId} and period_id = ${periodId}`;
  for (const table of ["leaderboard_entries", "leaderboard_notices"]) {
    const gone = await sql`
      delete from ${sql.table(table)} where ctid = any(array(
        select ctid from ${sql.table(table)} where ${ofList} limit ${ARCHIVE_CHUNK}))
      and ${ofList} returning 1`.execute(db);
    if (gone.rows.length === ARCHIVE_CHUNK) return true;
  }
  return false;
};

/** Must be called when none of its entries is left. */
export const markArchived = async ({ db }: Work, { projectId, periodId }: PeriodOf): Promise<void> => {
  await sql`
    update leaderboard_periods set status = 'ARCHIVED'
    where project_id = ${projectId} and id = ${periodId} and status = 'CLOSED'`.execute(db);
};
