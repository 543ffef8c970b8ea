import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import type { ListStatus } from "../../evaluation/boards/list.ts";
import type { Ties } from "../../evaluation/boards/ranks.ts";

/** Where an entry stands in storage order; its player is the last to decide. */
export type Place = { player_id: string; rank_score: number; rank_tie: number };

/** How far the closing of a list has come: first the final order is written, then prizes are given. */
export type Closing = {
  phase: "RESULTS" | "PRIZES";
  /** As they were when closing began: ranks of all chunks are made alike. */
  ties: Ties;
  /** The last entry that was read; null before the first. */
  after: Place | null;
  /** Places that are written. */
  count: number;
  /** The last place that was written. */
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
  /** As entries keep it. */
  leader_score: string | number | null;
  closed_at: Date | string | null;
  closing: Closing | null;
};

export type PeriodOf = { projectId: string; periodId: string };

export const isoOf = (value: Date | string | null): string | null =>
  value === null ? null : new Date(value).toISOString();

/** Keeps how far the closing of a list has come. */
export const keepClosing = async (
  { db }: Work,
  { projectId, periodId }: PeriodOf,
  closing: Closing,
): Promise<void> => {
  await sql`
    update leaderboard_periods set closing = ${JSON.stringify(closing)}::json
    where project_id = ${projectId} and id = ${periodId}`.execute(db);
};
