import { sql } from "kysely";
import { invalid, notFound } from "../errors.ts";
import { PAGE_DEPTH_MAX, PAGE_LIMIT_DEFAULT } from "../paging.ts";
import { getPlayer } from "../players/players.ts";
import type { Transact, Work } from "../work.ts";
import { boardOf, type Leaderboard } from "./leaderboard.ts";
import { getLeaderboard } from "./leaderboards.ts";
import type { PeriodRef, RankPage, RankStore, Standing } from "./ranks.ts";
import { type Board, fromRankScore, reachedUs } from "./scoring.ts";

export const AROUND_LIMIT_DEFAULT = 11;
export const ALL_TIME_KEY = "all-time";

/** One line of a leaderboard as the API shows it. */
export type LeaderboardEntry = {
  rank: number;
  playerId: string;
  externalUserId: string;
  displayName: string | null;
  avatarUrl: string | null;
  score: number;
  reachedAt: string;
  previousRank: number | null;
  isMe?: boolean;
};

export type LeaderboardView = {
  leaderboardKey: string;
  period: { key: string; startsAt: string; endsAt: string | null; status: "OPEN" };
  board: string;
  data: LeaderboardEntry[];
  me: LeaderboardEntry | null;
  pagination: { page: number; limit: number; total: number; totalPages: number };
};

/** Players are given by UUID or `ext:` and their external id. */
export type EntriesQuery = {
  page?: number | undefined;
  limit?: number | undefined;
  /** Show the places around this player instead of a page. */
  around?: string | undefined;
  /** Show this player's own line as `me`. */
  playerId?: string | undefined;
};

export type LeaderboardParts = { transact: Transact; ranks: RankStore };

export const periodOf = ({ projectId, periodId, definition }: Leaderboard): PeriodRef => ({
  projectId,
  periodId,
  ties: definition.ties,
});

/**
 * Reads places of a leaderboard: a page, or those around a player. `displayLimit` ends the pages, not the
 * places around a player. The rank index is asked between two transactions, so names may be a moment newer
 * than places.
 * @throws DomainError NOT_FOUND for an unknown leaderboard or player, or a player to show around who has no
 * entry; SERVICE_UNAVAILABLE while the rank index is being built
 */
export const readEntries = async (
  { transact, ranks }: LeaderboardParts,
  projectId: string,
  leaderboardRef: string,
  query: EntriesQuery,
): Promise<LeaderboardView> => {
  const { leaderboard, around, me } = await transact(async (work) => ({
    leaderboard: await getLeaderboard(work, projectId, leaderboardRef),
    around: query.around === undefined ? undefined : (await getPlayer(work, projectId, query.around)).id,
    me: query.playerId === undefined ? undefined : (await getPlayer(work, projectId, query.playerId)).id,
  }));
  const places = await readPlaces(ranks, leaderboard, { ...query, around });
  const mine = me === undefined ? undefined : await ranks.standing(periodOf(leaderboard), me);
  const shown = mine ? [...places.standings, mine] : places.standings;
  const players = await transact((work) => readNames(work, projectId, shown));
  const show = (standing: Standing) => showEntry(boardOf(leaderboard), standing, { players, me });
  const { page, limit, total } = places;
  return {
    leaderboardKey: leaderboard.key,
    period: {
      key: ALL_TIME_KEY,
      startsAt: leaderboard.createdAt.toISOString(),
      endsAt: null,
      status: "OPEN",
    },
    board: "",
    data: places.standings.flatMap((standing) => show(standing) ?? []),
    me: (mine && show(mine)) ?? null,
    pagination: { page, limit, total, totalPages: Math.ceil(total / limit) },
  };
};

type Places = RankPage & { page: number; limit: number };

const readPlaces = async (
  ranks: RankStore,
  leaderboard: Leaderboard,
  query: EntriesQuery,
): Promise<Places> => {
  const period = periodOf(leaderboard);
  const { page = 1, around } = query;
  if (around !== undefined) {
    const limit = query.limit ?? AROUND_LIMIT_DEFAULT;
    const found = await ranks.around(period, around, limit);
    if (!found) throw notFound("entry of this player");
    return { ...found, page: Math.floor((found.standings[0]?.position ?? 0) / limit) + 1, limit };
  }
  const limit = query.limit ?? PAGE_LIMIT_DEFAULT;
  if (page * limit > PAGE_DEPTH_MAX)
    throw invalid("page", `page times limit may be at most ${PAGE_DEPTH_MAX}`);
  const offset = (page - 1) * limit;
  const shown = leaderboard.definition.displayLimit ?? Infinity;
  // At least one: the answer also tells how many entries there are.
  const { standings, total } = await ranks.page(period, offset, Math.max(1, Math.min(limit, shown - offset)));
  return {
    standings: standings.filter(({ position }) => position < shown),
    total: Math.min(total, shown),
    page,
    limit,
  };
};

/** Reads one player's line. @throws DomainError NOT_FOUND when the player has no entry */
export const readEntry = async (
  parts: LeaderboardParts,
  projectId: string,
  leaderboardRef: string,
  playerRef: string,
): Promise<LeaderboardEntry> => {
  const { me } = await readEntries(parts, projectId, leaderboardRef, { playerId: playerRef, limit: 1 });
  if (!me) throw notFound("entry of this player");
  const { isMe: _, ...entry } = me;
  return entry;
};

export type Name = { externalUserId: string; displayName: string | null; avatarUrl: string | null };
type NameRow = {
  id: string;
  external_user_id: string;
  display_name: string | null;
  avatar_url: string | null;
};

/** Names by player id; players who are banned, deleted, merged or erased are not shown and have none. */
export const readNames = async (
  { db }: Work,
  projectId: string,
  standings: readonly Standing[],
): Promise<Map<string, Name>> => {
  if (standings.length === 0) return new Map();
  const ids = `{${standings.map(({ playerId }) => playerId).join(",")}}`;
  const result = await sql<NameRow>`
    select id, external_user_id, display_name, avatar_url from players
    where project_id = ${projectId} and id = any(${ids}::uuid[])
      and status not in ('BANNED', 'MERGED', 'ERASED') and deleted_at is null`.execute(db);
  return new Map(
    result.rows.map((row) => [
      row.id,
      { externalUserId: row.external_user_id, displayName: row.display_name, avatarUrl: row.avatar_url },
    ]),
  );
};

type Shown = { players: ReadonlyMap<string, Name>; me: string | undefined };

const showEntry = (
  board: Board,
  standing: Standing,
  { players, me }: Shown,
): LeaderboardEntry | undefined => {
  const { playerId, rank, rankScore, rankTie } = standing;
  const name = players.get(playerId);
  return (
    name && {
      rank,
      playerId,
      ...name,
      score: fromRankScore(board, rankScore),
      reachedAt: new Date(Math.floor(reachedUs(board, rankTie) / 1_000)).toISOString(),
      previousRank: null,
      ...(playerId === me ? { isMe: true } : {}),
    }
  );
};
