import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { PeriodRef, Standing } from "../evaluation/boards/ranks.ts";

type Row = {
  position: string | number;
  rank: string | number;
  player_id: string;
  rank_score: string | number;
  rank_tie: string | number;
};

const standingOf = (row: Row): Standing => ({
  playerId: row.player_id,
  rankScore: Number(row.rank_score),
  rankTie: Number(row.rank_tie),
  position: Number(row.position),
  rank: Number(row.rank),
});

const COLUMNS = sql`position, rank, player_id, rank_score, rank_tie`;

/** Reads places of a closed period from the 0-based `offset` on. */
export const resultsPage = async (
  { db }: Work,
  { projectId, periodId }: PeriodRef,
  { offset, limit }: { offset: number; limit: number },
): Promise<Standing[]> => {
  const result = await sql<Row>`
    select ${COLUMNS} from leaderboard_results
    where project_id = ${projectId} and period_id = ${periodId} and position >= ${offset}
    order by position limit ${limit}`.execute(db);
  return result.rows.map(standingOf);
};

/** Reads a player's place in a closed period. */
export const resultOf = async (
  { db }: Work,
  { projectId, periodId }: PeriodRef,
  playerId: string,
): Promise<Standing | undefined> => {
  const result = await sql<Row>`
    select ${COLUMNS} from leaderboard_results
    where project_id = ${projectId} and period_id = ${periodId} and player_id = ${playerId}`.execute(db);
  return result.rows[0] && standingOf(result.rows[0]);
};
