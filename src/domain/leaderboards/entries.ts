import type { Json } from "../kernel/events/events.ts";
import { invalid, notFound } from "../kernel/errors.ts";
import { getPlayer } from "../progression/players/players.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { secondsBehind } from "./behind.ts";
import { type BoardList, findList, isOver, type ListQuery } from "./board-list.ts";
import type { Board } from "../evaluation/boards/board.ts";
import { boardOf, type Leaderboard } from "../progression/leaderboard.ts";
import { getLeaderboard } from "./leaderboards.ts";
import type { ListStatus } from "../evaluation/boards/list.ts";
import { type ListedPlayer, readListedPlayers } from "./names.ts";
import { type Places, readPlace, readPlaces } from "./places.ts";
import type { RankStore, Standing } from "../evaluation/boards/ranks.ts";
import { fromRankScore, reachedUs } from "../evaluation/boards/scoring.ts";
import { checkSegment, type Scope, scopeOf } from "./segment-places.ts";

export { AROUND_LIMIT_DEFAULT } from "./places.ts";
export { ALL_TIME_KEY } from "../evaluation/boards/windows.ts";

/** One line of a leaderboard as the API shows it. */
export type LeaderboardEntry = {
  rank: number;
  playerId: string;
  externalUserId: string;
  displayName: string | null;
  avatarUrl: string | null;
  score: number;
  reachedAt: string;
  /**
   * The rank of the player's last notice before the current one; null before the first, and in closed
   * periods.
   */
  previousRank: number | null;
  /** Metadata of the submitted score. */
  meta?: Json;
  isMe?: boolean;
};

export type LeaderboardView = {
  leaderboardKey: string;
  period: { key: string; startsAt: string; endsAt: string | null; status: ListStatus };
  board: string;
  data: LeaderboardEntry[];
  me: LeaderboardEntry | null;
  /** The frozen copy that the page comes from; null for a page that was not requested as of a moment. */
  asOf: string | null;
  /** Whether the lines are current; false for those of a frozen copy and of closed periods. */
  isLive: boolean;
  /** Age of the oldest change that is not in the lines yet, in s; 0: none. Null where they are not live. */
  behindSeconds: number | null;
  pagination: {
    page: number;
    limit: number;
    total: number;
    totalPages: number;
    /** For `cursor`; null on the last page, and where pages are not live. */
    nextCursor: string | null;
    /** Whether `total` only counts matches among the first places, so that there may be more. */
    isEstimated: boolean;
  };
};

/** Players are given by UUID or `ext:` and their external id. */
export type EntriesQuery = ListQuery & {
  page?: number | undefined;
  limit?: number | undefined;
  /** `nextCursor` of the previous page: continues after its last line. */
  cursor?: string | undefined;
  /** "now", or the token of a frozen copy. */
  asOf?: string | undefined;
  /** `segment:{key}`: only the players of a segment. */
  scope?: string | undefined;
  /** Returns the neighbourhood of this player instead of a page. */
  around?: string | undefined;
  /** Adds this player's own line as `me`. */
  playerId?: string | undefined;
};

export type LeaderboardParts = { transact: Transact; ranks: RankStore };

type EntriesRequest = {
  leaderboard: Leaderboard;
  list: BoardList;
  scope: Scope | undefined;
  around: string | undefined;
  me: string | undefined;
  now: Date;
  behindSeconds: number;
};

type BoardName = { projectId: string; ref: string };

const ask = async (
  work: Work,
  { projectId, ref }: BoardName,
  query: EntriesQuery,
): Promise<EntriesRequest> => {
  const leaderboard = await getLeaderboard(work, projectId, ref);
  const list = await findList(work, leaderboard, query);
  const scope = scopeOf(query.scope);
  if (scope) await checkSegment(work, projectId, scope);
  const idOf = async (player: string | undefined): Promise<string | undefined> =>
    player === undefined ? undefined : (await getPlayer(work, projectId, player)).id;
  const [around, me] = [await idOf(query.around), await idOf(query.playerId)];
  const behindSeconds = isOver(list) ? 0 : await secondsBehind(work, projectId);
  return { leaderboard, list, scope, around, me, now: work.now, behindSeconds };
};

/**
 * Reads a page of a leaderboard, or the neighbourhood of a player. Open periods are read from the rank index,
 * closed ones from their final results. `displayLimit` limits pages, but not a player's neighbourhood. The
 * rank index is queried between two transactions, so names may be a moment newer than ranks.
 * @throws DomainError NOT_FOUND for an unknown leaderboard, period, segment or player, or an `around` player
 * without an entry; GONE for a frozen copy that has expired; VALIDATION_ERROR; SERVICE_UNAVAILABLE while the
 * rank index is being built
 */
export const readEntries = async (
  { transact, ranks }: LeaderboardParts,
  projectId: string,
  leaderboardRef: string,
  query: EntriesQuery,
): Promise<LeaderboardView> => {
  checkQuery(query);
  const asked = await transact((work) => ask(work, { projectId, ref: leaderboardRef }, query));
  const { leaderboard, list, scope, around, me, now, behindSeconds } = asked;
  const source = { transact, ranks, list, shown: leaderboard.definition.displayLimit ?? Infinity, now };
  const places = await readPlaces(source, { ...query, scope, around });
  const mine = me === undefined ? undefined : await readPlace(source, me);
  const standings = mine ? [...places.standings, mine] : places.standings;
  const kept = await transact((work) => readListedPlayers(work, list.ref, standings));
  const show = (standing: Standing) =>
    showEntry(boardOf(leaderboard), standing, { kept, me, isOpen: !isOver(list) });
  return {
    ...viewOf(leaderboard, list),
    data: places.standings.flatMap((standing) => show(standing) ?? []),
    me: (mine && show(mine)) ?? null,
    asOf: places.asOf,
    isLive: places.isLive,
    behindSeconds: places.isLive ? behindSeconds : null,
    pagination: paginationOf(places),
  };
};

const viewOf = ({ key }: Leaderboard, { key: periodKey, board, startsAt, endsAt, status }: BoardList) => ({
  leaderboardKey: key,
  period: {
    key: periodKey,
    startsAt: startsAt.toISOString(),
    endsAt: endsAt?.toISOString() ?? null,
    status,
  },
  board,
});

const paginationOf = ({ page, limit, total, nextCursor, isEstimated }: Places) => ({
  page,
  limit,
  total,
  totalPages: Math.ceil(total / limit),
  nextCursor,
  isEstimated,
});

const checkQuery = ({ page = 1, cursor, asOf, scope, around }: EntriesQuery): void => {
  const given = { around, scope, cursor, asOf, page: page > 1 ? page : undefined };
  const clashes = {
    around: ["page", "cursor", "asOf", "scope"],
    scope: ["cursor", "asOf"],
    cursor: ["asOf", "page"],
  } as const;
  for (const [field, others] of Object.entries(clashes)) {
    if (given[field as keyof typeof given] === undefined) continue;
    for (const other of others)
      if (given[other] !== undefined) throw invalid(other, `cannot be combined with ${field}`);
  }
};

/** Reads one player's line. @throws DomainError NOT_FOUND when the player has no entry */
export const readEntry = async (
  { transact, ranks }: LeaderboardParts,
  projectId: string,
  leaderboardRef: string,
  query: ListQuery & { playerId: string },
): Promise<LeaderboardEntry> => {
  const { leaderboard, list, me } = await transact((work) =>
    ask(work, { projectId, ref: leaderboardRef }, query),
  );
  const mine = await readPlace({ transact, ranks, list }, me!);
  const kept = mine && (await transact((work) => readListedPlayers(work, list.ref, [mine])));
  const entry =
    mine && showEntry(boardOf(leaderboard), mine, { kept: kept!, me: undefined, isOpen: !isOver(list) });
  if (!entry) throw notFound("entry of this player");
  return entry;
};

type Shown = { kept: ReadonlyMap<string, ListedPlayer>; me: string | undefined; isOpen: boolean };

const showEntry = (
  board: Board,
  { playerId, rank, rankScore, rankTie }: Standing,
  { kept, me, isOpen }: Shown,
): LeaderboardEntry | undefined => {
  const found = kept.get(playerId);
  if (!found) return undefined;
  const { name, notified, notifiedBefore, meta } = found;
  return {
    rank,
    playerId,
    ...name,
    score: fromRankScore(board, rankScore),
    reachedAt: new Date(Math.floor(reachedUs(board, rankTie) / 1_000)).toISOString(),
    previousRank: isOpen ? (notified === rank ? notifiedBefore : notified) : null,
    ...(meta === null ? {} : { meta }),
    ...(playerId === me ? { isMe: true } : {}),
  };
};
