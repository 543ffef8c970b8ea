import type { App } from "../app.ts";
import { type Name, periodOf, readNames } from "../domain/leaderboards/entries.ts";
import { boardOf, type Leaderboard } from "../domain/leaderboards/leaderboard.ts";
import { getLeaderboard } from "../domain/leaderboards/leaderboards.ts";
import type { PeriodRef, RankPage, Standing } from "../domain/leaderboards/ranks.ts";
import { fromRankScore } from "../domain/leaderboards/scoring.ts";
import { transactIn } from "./sight.ts";

/** How long a room shows a name it has read. */
const NAME_KEPT_MS = 30_000;
const NAMES_KEPT_MAX = 20_000;

/** `displayName` is empty when the player has none. */
export type BoardLine = {
  rank: number;
  playerId: string;
  externalUserId: string;
  displayName: string;
  score: number;
};

/** One player's place: `rank` is 0 without an entry, `rows` the places around. */
export type Place = { rank: number; score: number; rows: BoardLine[] };

export type BoardView = {
  leaderboard: Leaderboard;
  size: number;
  top: BoardLine[];
  places: Map<string, Place>;
};

export type BoardQuery = {
  top: number;
  /** The players who watch, and how many places around them they want to see. */
  watchers: ReadonlyMap<string, number>;
};

export type BoardReader = (query: BoardQuery) => Promise<BoardView>;

type Kept = { name: Name | undefined; untilMs: number };

/** Reads one board for a room that reads it again and again: names are asked for once in a while only. */
export const createBoardReader = (app: App, projectId: string, leaderboardKey: string): BoardReader => {
  const kept = new Map<string, Kept>();
  const transact = transactIn(app, projectId);

  const learnNames = async (standings: readonly Standing[]): Promise<void> => {
    const nowMs = app.clock().getTime();
    const unknown = standings.filter(({ playerId }) => (kept.get(playerId)?.untilMs ?? 0) <= nowMs);
    if (unknown.length === 0) return;
    const names = await transact((work) => readNames(work, projectId, unknown));
    if (kept.size > NAMES_KEPT_MAX) kept.clear();
    for (const { playerId } of unknown)
      kept.set(playerId, { name: names.get(playerId), untilMs: nowMs + NAME_KEPT_MS });
  };

  return async ({ top, watchers }) => {
    const leaderboard = await transact((work) => getLeaderboard(work, projectId, leaderboardKey));
    const period = periodOf(leaderboard);
    const page = await app.ranks.page(period, 0, Math.min(top, leaderboard.definition.displayLimit ?? top));
    const windows = await Promise.all(
      [...watchers].map(
        async ([playerId, around]) =>
          [playerId, await readWindow(app, period, { playerId, around })] as const,
      ),
    );
    await learnNames([...page.standings, ...windows.flatMap(([, window]) => window?.standings ?? [])]);
    const board = boardOf(leaderboard);
    const line = ({ playerId, rank, rankScore }: Standing): BoardLine[] => {
      const name = kept.get(playerId)?.name;
      if (!name) return [];
      const { externalUserId, displayName } = name;
      return [
        {
          rank,
          playerId,
          externalUserId,
          displayName: displayName ?? "",
          score: fromRankScore(board, rankScore),
        },
      ];
    };
    const place = (playerId: string, window: RankPage | undefined): Place => {
      const lines = window?.standings.flatMap(line) ?? [];
      const me = lines.find((own) => own.playerId === playerId);
      return {
        rank: me?.rank ?? 0,
        score: me?.score ?? 0,
        rows: (watchers.get(playerId) ?? 0) > 0 ? lines : [],
      };
    };
    const places = new Map(windows.map(([playerId, window]) => [playerId, place(playerId, window)]));
    return { leaderboard, size: page.total, top: page.standings.flatMap(line), places };
  };
};

type Watcher = { playerId: string; around: number };

const readWindow = async (
  { ranks }: App,
  period: PeriodRef,
  { playerId, around }: Watcher,
): Promise<RankPage | undefined> => {
  if (around > 0) return ranks.around(period, playerId, around);
  const standing = await ranks.standing(period, playerId);
  return standing && { standings: [standing], total: 0 };
};
