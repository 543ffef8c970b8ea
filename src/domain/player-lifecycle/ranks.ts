import { ALL_TIME_KEY, type LeaderboardParts, periodOf } from "../leaderboards/entries.ts";
import { boardOf, Leaderboard } from "../progression/leaderboard.ts";
import { fromRankScore } from "../evaluation/boards/scoring.ts";
import type { Player } from "../players/player.ts";

/** A player's place on one board; `rank`, `score` and `percentile` are null without an entry. */
export type PlayerRank = {
  leaderboardKey: string;
  periodKey: string;
  rank: number | null;
  score: number | null;
  participants: number;
  /** The share of participants who are not ahead, in percent: 100 for the first. */
  percentile: number | null;
  leagueTier: string | null;
};

/**
 * Returns a player's places on all active boards, by key.
 * @throws DomainError SERVICE_UNAVAILABLE while the rank index is being built
 */
export const readRanks = async (
  { transact, ranks }: Pick<LeaderboardParts, "transact" | "ranks">,
  { projectId, id }: Player,
): Promise<PlayerRank[]> => {
  const boards = await transact(({ em }) =>
    em.find(Leaderboard, { projectId, status: "ACTIVE" }, { orderBy: { key: "asc" } }),
  );
  const places: PlayerRank[] = [];
  for (const board of boards) {
    const { total: participants } = await ranks.page(periodOf(board), 0, 1);
    const standing = await ranks.standing(periodOf(board), id);
    places.push({
      leaderboardKey: board.key,
      periodKey: ALL_TIME_KEY,
      rank: standing?.rank ?? null,
      score: standing ? fromRankScore(boardOf(board), standing.rankScore) : null,
      participants,
      percentile: standing ? percentileOf(standing.position, participants) : null,
      leagueTier: null,
    });
  }
  return places;
};

const percentileOf = (position: number, participants: number): number =>
  Math.floor(((participants - position) / participants) * 100);
