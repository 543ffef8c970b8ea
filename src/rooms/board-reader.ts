import type { App } from "../app.ts";
import { type BoardList, findList, isOver } from "../domain/leaderboards/board-list.ts";
import { boardOf, type Leaderboard } from "../domain/leaderboards/leaderboard.ts";
import { getLeaderboard } from "../domain/leaderboards/leaderboards.ts";
import { type Name, readNames } from "../domain/leaderboards/names.ts";
import { type ListSource, readAround, readAt, readPlace } from "../domain/leaderboards/places.ts";
import type { RankPage, Standing } from "../domain/leaderboards/ranks.ts";
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
  /** That of the window which runs now. */
  list: BoardList;
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

export type BoardName = { projectId: string; leaderboardKey: string; board: string };

/** Reads one board for a room that reads it again and again: names are asked for once in a while only. */
export const createBoardReader = (app: App, { projectId, leaderboardKey, board }: BoardName): BoardReader => {
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
    const { leaderboard, list } = await transact(async (work) => {
      const found = await getLeaderboard(work, projectId, leaderboardKey);
      return { leaderboard: found, list: await findList(work, found, { board }) };
    });
    const source = { transact, ranks: app.ranks, list };
    const page = await readAt(source, 0, Math.min(top, leaderboard.definition.displayLimit ?? top));
    const windows = await readWindows(source, watchers);
    await learnNames([...page.standings, ...[...windows.values()].flatMap(({ standings }) => standings)]);
    const scoring = boardOf(leaderboard);
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
          score: fromRankScore(scoring, rankScore),
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
    const places = new Map(
      [...watchers.keys()].map((playerId) => [playerId, place(playerId, windows.get(playerId))]),
    );
    return { leaderboard, list, size: page.total, top: page.standings.flatMap(line), places };
  };
};

/** By player; who has no entry has no window. The places of those who see no others are read in one go. */
const readWindows = async (
  source: ListSource,
  watchers: BoardQuery["watchers"],
): Promise<Map<string, RankPage>> => {
  const alone = [...watchers].flatMap(([playerId, around]) => (around > 0 ? [] : [playerId]));
  const found = new Map<string, RankPage>();
  for (const standing of await readStandings(source, alone))
    found.set(standing.playerId, { standings: [standing], total: 0 });
  const readOne = async ([playerId, around]: [string, number]): Promise<void> => {
    const window = around > 0 ? await readAround(source, playerId, around) : undefined;
    if (window) found.set(playerId, window);
  };
  await Promise.all([...watchers].map(readOne));
  return found;
};

const readStandings = async (source: ListSource, playerIds: readonly string[]): Promise<Standing[]> => {
  if (playerIds.length === 0) return [];
  if (!isOver(source.list)) return source.ranks.standings(source.list.ref, playerIds);
  const results = await Promise.all(playerIds.map((playerId) => readPlace(source, playerId)));
  return results.filter((result) => result !== undefined);
};
