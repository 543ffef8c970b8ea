import type { App } from "../app.ts";
import { type BoardList, findList, isOver } from "../domain/leaderboards/board-list.ts";
import { boardOf, type Leaderboard } from "../domain/progression/leaderboard.ts";
import { getLeaderboard } from "../domain/leaderboards/leaderboards.ts";
import { type Name, readNames } from "../domain/leaderboards/names.ts";
import { type ListSource, readAround, readAt, readPlace } from "../domain/leaderboards/places.ts";
import type { Standing } from "../domain/evaluation/boards/ranks.ts";
import { fromRankScore } from "../domain/evaluation/boards/scoring.ts";
import { transactIn } from "./project-transact.ts";

/** How long a room shows a cached name, unless everything is read anew. */
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

/**
 * One player's standing: `rank` is 0 and `rankScore` undefined without an entry, `rows` are the neighbouring
 * entries.
 */
export type WatcherPlace = {
  rank: number;
  score: number;
  rankScore: number | undefined;
  rows: readonly BoardLine[];
};

const NOWHERE: WatcherPlace = { rank: 0, score: 0, rankScore: undefined, rows: [] };

export type BoardView = {
  leaderboard: Leaderboard;
  /** The list of the current window. */
  list: BoardList;
  size: number;
  top: BoardLine[];
  /** Standing of every watcher that was asked for, by `placeKey`. */
  places: ReadonlyMap<string, WatcherPlace>;
};

/** A watching player, and how many neighbours a session of theirs wants to see. */
export type BoardWatcher = { playerId: string; around: number };

export const placeKey = ({ playerId, around }: BoardWatcher): string => `${around} ${playerId}`;

export type BoardQuery = {
  top: number;
  /** By `placeKey`. */
  watchers: ReadonlyMap<string, BoardWatcher>;
  /** Allows reuse of names, and of the definition and window of the last read while that window runs. */
  mayKeep?: boolean;
};

export type BoardReader = (query: BoardQuery) => Promise<BoardView>;

type CachedName = { name: Name | undefined; untilMs: number };

export type BoardName = { projectId: string; leaderboardKey: string; board: string };

type Found = Pick<BoardView, "leaderboard" | "list">;

/**
 * Creates a reader for a room that reads one board repeatedly; names are only looked up from time to time.
 */
export const createBoardReader = (app: App, name: BoardName): BoardReader => {
  const { projectId, leaderboardKey, board } = name;
  const transact = transactIn(app, projectId);
  const names = createNames(app, projectId);
  let last: Found | undefined;

  const find = async (mayKeep: boolean): Promise<Found> => {
    if (mayKeep && last && runsAt(last.list, app.clock())) return last;
    last = await transact(async (work) => {
      const leaderboard = await getLeaderboard(work, projectId, leaderboardKey);
      return { leaderboard, list: await findList(work, leaderboard, { board }) };
    });
    return last;
  };

  return async ({ top, watchers, mayKeep = false }) => {
    const { leaderboard, list } = await find(mayKeep);
    const source = { transact, ranks: app.ranks, list };
    const [page, { alone, around }] = await Promise.all([
      readAt(source, 0, Math.min(top, leaderboard.definition.displayLimit ?? top)),
      readOwn(source, watchers),
    ]);
    // A watcher is a player whom the board may show: their own standing needs no name.
    await names.learn([page.standings, ...around.values()], mayKeep);
    const scoring = boardOf(leaderboard);
    const line = ({ playerId, rank, rankScore }: Standing): BoardLine[] => {
      const known = names.of(playerId);
      if (!known) return [];
      const { externalUserId, displayName } = known;
      const score = fromRankScore(scoring, rankScore);
      return [{ rank, playerId, externalUserId, displayName: displayName ?? "", score }];
    };
    const places = new Map<string, WatcherPlace>();
    for (const key of watchers.keys()) places.set(key, NOWHERE);
    for (const { playerId, rank, rankScore } of alone)
      places.set(placeKey({ playerId, around: 0 }), {
        ...NOWHERE,
        rank,
        score: fromRankScore(scoring, rankScore),
        rankScore,
      });
    for (const [key, standings] of around) {
      const rows = standings.flatMap(line);
      const { playerId } = watchers.get(key)!;
      const { rank, score } = rows.find((own) => own.playerId === playerId) ?? NOWHERE;
      const rankScore = standings.find((own) => own.playerId === playerId)?.rankScore;
      places.set(key, { rank, score, rankScore, rows });
    }
    return { leaderboard, list, size: page.total, top: page.standings.flatMap(line), places };
  };
};

const runsAt = ({ status, endsAt }: BoardList, now: Date): boolean =>
  status === "OPEN" && (endsAt === null || endsAt > now);

/** Caches the names of the players on display for a while. */
const createNames = (app: App, projectId: string) => {
  const kept = new Map<string, CachedName>();
  const transact = transactIn(app, projectId);
  return {
    learn: async (lists: readonly (readonly Standing[])[], mayKeep: boolean): Promise<void> => {
      const nowMs = app.clock().getTime();
      const isUnknown = ({ playerId }: Standing): boolean =>
        !mayKeep || (kept.get(playerId)?.untilMs ?? 0) <= nowMs;
      const unknown = lists.flatMap((standings) => standings.filter(isUnknown));
      if (unknown.length === 0) return;
      const names = await transact((work) => readNames(work, projectId, unknown));
      if (kept.size > NAMES_KEPT_MAX) kept.clear();
      for (const { playerId } of unknown)
        kept.set(playerId, { name: names.get(playerId), untilMs: nowMs + NAME_KEPT_MS });
    },
    /** Undefined for players who are hidden from the board. */
    of: (playerId: string): Name | undefined => kept.get(playerId)?.name,
  };
};

/** `around` holds the neighbourhoods, by `placeKey`; players without an entry are in neither. */
type Own = { alone: readonly Standing[]; around: ReadonlyMap<string, readonly Standing[]> };

/** Reads the standings of all watchers who see no neighbours in one query. */
const readOwn = async (source: ListSource, watchers: BoardQuery["watchers"]): Promise<Own> => {
  const lone: string[] = [];
  const windows: Promise<void>[] = [];
  const around = new Map<string, readonly Standing[]>();
  const readOne = async (watcher: BoardWatcher): Promise<void> => {
    const window = await readAround(source, watcher.playerId, watcher.around);
    if (window) around.set(placeKey(watcher), window.standings);
  };
  for (const watcher of watchers.values())
    if (watcher.around > 0) windows.push(readOne(watcher));
    else lone.push(watcher.playerId);
  const [alone] = await Promise.all([readStandings(source, lone), ...windows]);
  return { alone, around };
};

const readStandings = async (
  source: ListSource,
  playerIds: readonly string[],
): Promise<readonly Standing[]> => {
  if (playerIds.length === 0) return [];
  if (!isOver(source.list)) return source.ranks.standings(source.list.ref, playerIds);
  const results = await Promise.all(playerIds.map((playerId) => readPlace(source, playerId)));
  return results.filter((result) => result !== undefined);
};
