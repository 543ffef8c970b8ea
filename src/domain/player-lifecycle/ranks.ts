import { breakdownOf, findList as findCurrent } from "../evaluation/boards/lists.ts";
import type { PeriodRef, Standing } from "../evaluation/boards/ranks.ts";
import { fromRankScore } from "../evaluation/boards/scoring.ts";
import { type BoardList, findList, isOver } from "../leaderboards/board-list.ts";
import type { LeaderboardParts } from "../leaderboards/entries.ts";
import { readPlace } from "../leaderboards/places.ts";
import type { Work } from "../kernel/work.ts";
import type { Player } from "../players/player.ts";
import { boardOf, Leaderboard } from "../progression/leaderboard.ts";

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

/** The list in which a player is ranked. `over`: it is final, and no longer in the rank index. */
type OwnList = { leaderboard: Leaderboard; key: string; ref: PeriodRef; over?: BoardList };

const ownList = async (
  work: Work,
  leaderboard: Leaderboard,
  player: Player,
): Promise<OwnList | undefined> => {
  const { projectId, definition } = leaderboard;
  const current = findCurrent(boardOf(leaderboard), player, { at: work.now.getTime() });
  if (typeof current !== "string") {
    const ref = { projectId, periodId: current.id, ties: definition.ties };
    return { leaderboard, key: current.window.key, ref };
  }
  const board = breakdownOf(definition, player);
  if (definition.period.kind !== "FIXED" || board === undefined) return undefined;
  const list = await findList(work, leaderboard, board === "" ? {} : { board });
  return { leaderboard, key: list.key, ref: list.ref, ...(isOver(list) ? { over: list } : {}) };
};

const ownLists = async (work: Work, player: Player): Promise<OwnList[]> => {
  const where = { projectId: player.projectId, status: "ACTIVE" as const };
  const lists: OwnList[] = [];
  for (const leaderboard of await work.em.find(Leaderboard, where, { orderBy: { key: "asc" } })) {
    const list = await ownList(work, leaderboard, player);
    if (list) lists.push(list);
  }
  return lists;
};

type RankParts = Pick<LeaderboardParts, "transact" | "ranks">;
type Place = { participants: number; standing: Standing | undefined };

const placeIn = async (parts: RankParts, { ref, over }: OwnList, id: string): Promise<Place> => {
  if (over)
    return { participants: over.participants, standing: await readPlace({ ...parts, list: over }, id) };
  const [{ total: participants }, standing] = await Promise.all([
    parts.ranks.page(ref, 0, 1),
    parts.ranks.standing(ref, id),
  ]);
  return { participants, standing };
};

/**
 * Returns a player's places in the current periods of all active boards, by key; in a fixed period also
 * before and after it. Of a board with a breakdown it is that of the player's own value; boards for which the
 * player has none, and those between two periods, are left out.
 * @throws DomainError SERVICE_UNAVAILABLE while the rank index is being built
 */
export const readRanks = async (parts: RankParts, player: Player): Promise<PlayerRank[]> => {
  const lists = await parts.transact((work) => ownLists(work, player));
  return Promise.all(
    lists.map(async (list) => {
      const { participants, standing } = await placeIn(parts, list, player.id);
      return {
        leaderboardKey: list.leaderboard.key,
        periodKey: list.key,
        rank: standing?.rank ?? null,
        score: standing ? fromRankScore(boardOf(list.leaderboard), standing.rankScore) : null,
        participants,
        percentile: standing ? percentileOf(standing.position, participants) : null,
        leagueTier: null,
      };
    }),
  );
};

const percentileOf = (position: number, participants: number): number =>
  Math.floor(((participants - position) / participants) * 100);
