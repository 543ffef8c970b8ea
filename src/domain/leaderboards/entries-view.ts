import type { Board } from "../evaluation/boards/board.ts";
import type { ListStatus } from "../evaluation/boards/list.ts";
import type { Standing } from "../evaluation/boards/ranks.ts";
import { fromRankScore, reachedUs } from "../evaluation/boards/scoring.ts";
import { invalid } from "../kernel/errors.ts";
import type { Json } from "../kernel/events/events.ts";
import { boardOf, type Leaderboard } from "../progression/leaderboard.ts";
import { type BoardList, isOver, type ListQuery } from "./board-list.ts";
import type { ListedPlayer } from "./names.ts";
import type { Places } from "./places.ts";

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
  /** As it is now, and not as it was a moment ago. */
  fresh?: boolean | undefined;
};

/** What was read for a view. */
export type Viewed = {
  leaderboard: Leaderboard;
  list: BoardList;
  behindSeconds: number;
  places: Places;
  mine: Standing | undefined;
  players: ReadonlyMap<string, ListedPlayer>;
  /** The player whose own line is asked for. */
  me: string | undefined;
};

/** Converts what was read to the API representation. */
export const showView = (viewed: Viewed): LeaderboardView => {
  const { leaderboard, list, behindSeconds, places, mine, players, me } = viewed;
  const board = boardOf(leaderboard);
  const show = (standing: Standing) => showEntry(board, standing, { players, me, isOpen: !isOver(list) });
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

/** @throws DomainError VALIDATION_ERROR for parameters that cannot be combined */
export const checkQuery = ({ page = 1, cursor, asOf, scope, around }: EntriesQuery): void => {
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

/** `me`: the player whose line is marked. */
type Shown = { players: ReadonlyMap<string, ListedPlayer>; me: string | undefined; isOpen: boolean };

/** Returns the line of a standing; undefined of a player who is hidden. */
export const showEntry = (
  board: Board,
  { playerId, rank, rankScore, rankTie }: Standing,
  { players, me, isOpen }: Shown,
): LeaderboardEntry | undefined => {
  const found = players.get(playerId);
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
