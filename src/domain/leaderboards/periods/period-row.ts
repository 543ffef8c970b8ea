import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import type { ListStatus } from "../../evaluation/boards/list.ts";
import type { Ties } from "../../evaluation/boards/ranks.ts";

/** An entry's position in storage order; the player id is the final tie-breaker. */
export type EntryPosition = { player_id: string; rank_score: number; rank_tie: number };

/** Progress of closing a list: first the final order is written, then prizes are given. */
export type Closing = {
  phase: "RESULTS" | "PRIZES";
  /** As they were when closing began: all chunks must be ranked alike. */
  ties: Ties;
  /** The last entry that was read; null before the first. */
  after: EntryPosition | null;
  /** Number of written places. */
  count: number;
  /** Rank of the last written place. */
  rank: number;
  rankScore: number | null;
  /** The next position that may win. */
  position: number;
  granted: number;
};

/** A list of entries: one window of a board, and one value of its breakdown. */
export type PeriodRow = {
  project_id: string;
  id: string;
  leaderboard_id: string;
  period_key: string;
  board: string;
  starts_at: Date | string | null;
  ends_at: Date | string | null;
  close_at: Date | string | null;
  status: ListStatus;
  is_late: boolean;
  grants_prizes: boolean;
  participants: string | number;
  leader_id: string | null;
  /** As stored in entries. */
  leader_score: string | number | null;
  closed_at: Date | string | null;
  closing: Closing | null;
};

export type PeriodOf = { projectId: string; periodId: string };

export const isoOf = (value: Date | string | null): string | null =>
  value === null ? null : new Date(value).toISOString();

/** Stores the progress of closing a list. */
export const keepClosing = async (
  { db }: Work,
  { projectId, periodId }: PeriodOf,
  closing: Closing,
): Promise<void> => {
  await sql`
    update leaderboard_periods set closing = ${JSON.stringify(closing)}::json
    where project_id = ${projectId} and id = ${periodId}`.execute(db);
};
