import { sql } from "kysely";
import { z } from "zod";
import { Person } from "../kernel/events/shapes.ts";
import type { Board } from "../evaluation/boards/board.ts";
import { fromRankScore, reachedUs } from "../evaluation/boards/lists.ts";
import type { Standing } from "../evaluation/boards/ranks.ts";
import type { Aged } from "../kernel/caches.ts";
import { DomainError, invalid, notFound } from "../kernel/errors.ts";
import { ranksPart, timeOfId } from "../kernel/ids.ts";
import type { Work } from "../kernel/work.ts";
import {
  type BoardList,
  checkSegment,
  findList,
  isOver,
  type ListQuery,
  type Places,
  readPlace,
  readPlaces,
  SCOPE_EXAMINED_MAX,
  showWindow,
  WindowBody,
  type Scope,
  scopeOf,
} from "./board-list.ts";
import { getLeaderboard } from "./leaderboards.ts";
import { type LeaderboardParts, type ListedPlayer, readListedPlayers, readLive } from "./live-list.ts";
import { boardOf, type Leaderboard } from "../progression/load-plan.ts";
import { getPlayer } from "../progression/players/players.ts";

/**
 * Returns the age of a project's oldest committed change of boards that is not in the rank index yet, in
 * whole seconds; 0 when there is none. One index look-up.
 */
const secondsBehind = async ({ db, serverNow }: Work, projectId: string): Promise<number> => {
  const { rows } = await sql<{ id: string | null }>`
    select outbox_ids[1] as id from outbox_q
    where project_id = ${projectId}::uuid and part = ${ranksPart(projectId)}::smallint
    order by seq limit 1`.execute(db);
  const id = rows[0]?.id ?? null;
  return id === null ? 0 : Math.max(0, Math.floor((serverNow.getTime() - timeOfId(id)) / 1_000));
};

/** One line of a leaderboard as the API shows it; `meta` is of the submitted score. */
export const EntryBody = z
  .object({
    rank: z.int(),
    ...Person.shape,
    avatarUrl: z.string().nullable(),
    score: z.number(),
    reachedAt: z.iso.datetime().meta({ description: "When this score was reached" }),
    previousRank: z
      .int()
      .nullable()
      .meta({ description: "The rank in the player's notice before this one; null before the first" }),
    meta: z.record(z.string(), z.unknown()).optional(),
    isMe: z.boolean().optional().meta({ description: "true on the line of the query's playerId" }),
  })
  .meta({ id: "LeaderboardEntry" });
type LeaderboardEntry = z.output<typeof EntryBody>;

export const ViewBody = z
  .object({
    leaderboardKey: z.string(),
    period: WindowBody,
    board: z.string().meta({ description: "The value of the breakdown; empty without one" }),
    data: z.array(EntryBody),
    me: EntryBody.nullable(),
    asOf: z.string().nullable().meta({ description: "The frozen copy of this page, for the next ones" }),
    isLive: z.boolean().meta({ description: "false: lines of a frozen copy or of a closed period" }),
    behindSeconds: z.int().nullable().meta({
      description: "Age of the oldest change that the lines do not contain yet; 0: none; null: not live",
    }),
    pagination: z.object({
      page: z.int(),
      limit: z.int(),
      total: z.int(),
      totalPages: z.int(),
      nextCursor: z.string().nullable().meta({ description: "For cursor; goes on after the last line" }),
      isEstimated: z.boolean().meta({ description: `total is of the first ${SCOPE_EXAMINED_MAX} places` }),
    }),
  })
  .meta({ id: "LeaderboardView" });
type LeaderboardView = z.output<typeof ViewBody>;

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
type Viewed = {
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
const showView = (viewed: Viewed): LeaderboardView => {
  const { leaderboard, list, behindSeconds, places, mine, players, me } = viewed;
  const board = boardOf(leaderboard);
  const show = (standing: Standing) => showEntry(board, standing, { players, me, isOpen: !isOver(list) });
  return {
    leaderboardKey: leaderboard.key,
    period: showWindow(list),
    board: list.board,
    data: places.standings.flatMap((standing) => show(standing) ?? []),
    me: (mine && show(mine)) ?? null,
    asOf: places.asOf,
    isLive: places.isLive,
    behindSeconds: places.isLive ? behindSeconds : null,
    pagination: paginationOf(places),
  };
};

const paginationOf = ({ page, limit, total, nextCursor, isEstimated }: Places) => ({
  page,
  limit,
  total,
  totalPages: Math.ceil(total / limit),
  nextCursor,
  isEstimated,
});

/** @throws DomainError VALIDATION_ERROR for parameters that cannot be combined */
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

/** `me`: the player whose line is marked. */
type Shown = { players: ReadonlyMap<string, ListedPlayer>; me: string | undefined; isOpen: boolean };

/** Returns the line of a standing; undefined of a player who is hidden. */
const showEntry = (
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

export type { LeaderboardParts } from "./live-list.ts";

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

/** A page that exists, or what there is instead, to be told once everything else is known. */
type Tried<T> = T | DomainError;

/** Returns what is missing instead of throwing it. */
const orMissing = async <T>(find: () => Promise<T>): Promise<Tried<T>> => {
  try {
    return await find();
  } catch (error) {
    if (error instanceof DomainError && error.code === "NOT_FOUND") return error;
    throw error;
  }
};

type Page = { places: Places; mine: Standing | undefined };

const standingsOf = ({ places, mine }: Page): readonly Standing[] =>
  mine ? [...places.standings, mine] : places.standings;

/**
 * Reads a page of a leaderboard, or the neighbourhood of a player. Open periods are read from the rank index,
 * closed ones from their final results. `displayLimit` limits pages, but not a player's neighbourhood. The
 * rank index is queried before names, which may be a moment newer. `ageMs` is the age of its oldest part.
 * @throws DomainError NOT_FOUND for an unknown leaderboard, period, segment or player, or an `around` player
 * without an entry; GONE for a frozen copy that has expired; VALIDATION_ERROR; SERVICE_UNAVAILABLE while the
 * rank index is being built
 */
export const readEntries = async (
  parts: LeaderboardParts,
  projectId: string,
  leaderboardRef: string,
  query: EntriesQuery,
): Promise<Aged<LeaderboardView>> => {
  checkQuery(query);
  const isLive = query.scope === undefined && query.asOf === undefined;
  const live = isLive ? await readLiveEntries(parts, { projectId, ref: leaderboardRef }, query) : undefined;
  if (live) return live;
  return { value: await readAnyEntries(parts, { projectId, ref: leaderboardRef }, query), ageMs: 0 };
};

const readLiveEntries = async (
  parts: LeaderboardParts,
  { projectId, ref }: BoardName,
  query: EntriesQuery,
): Promise<Aged<LeaderboardView> | undefined> => {
  const { around, playerId } = query;
  const hasAround = around !== undefined;
  const found = await readLive<Tried<Page>>(parts, {
    projectId,
    leaderboardRef: ref,
    list: query,
    refs: [around, playerId].filter((one) => one !== undefined),
    isFresh: query.fresh ?? false,
    readPlaces: (source, ids) =>
      orMissing(async () => {
        const me = playerId === undefined ? undefined : ids.at(-1);
        const asked = { ...query, scope: undefined, around: hasAround ? ids[0] : undefined };
        const [places, mine] = await Promise.all([
          readPlaces(source, asked),
          me === undefined ? undefined : readPlace(source, me),
        ]);
        return { places, mine };
      }),
    standingsOf: (page) => (page instanceof DomainError ? [] : standingsOf(page)),
  });
  if (!found) return undefined;
  if (found.places instanceof DomainError) throw found.places;
  const me = playerId === undefined ? undefined : found.refIds.at(-1);
  return { value: showView({ ...found, ...found.places, me }), ageMs: found.ageMs };
};

const readAnyEntries = async (
  { transact, read, ranks }: LeaderboardParts,
  name: BoardName,
  query: EntriesQuery,
): Promise<LeaderboardView> => {
  const asked = await transact((work) => ask(work, name, query));
  const { leaderboard, list, scope, around, me, now } = asked;
  const source = { transact, ranks, list, shown: leaderboard.definition.displayLimit ?? Infinity, now };
  const places = await readPlaces(source, { ...query, scope, around });
  const mine = me === undefined ? undefined : await readPlace(source, me);
  const ids = standingsOf({ places, mine }).map(({ playerId }) => playerId);
  const players = await readListedPlayers(read, list.ref, ids);
  return showView({ ...asked, places, mine, players, me });
};

/** `fresh`: as it is now, and not as it was a moment ago. */
type EntryQuery = ListQuery & { playerId: string; fresh?: boolean | undefined };

/** Reads one player's line. @throws DomainError NOT_FOUND when the player has no entry */
export const readEntry = async (
  parts: LeaderboardParts,
  projectId: string,
  leaderboardRef: string,
  query: EntryQuery,
): Promise<Aged<LeaderboardEntry>> => {
  const live = await readLive<Standing | undefined>(parts, {
    projectId,
    leaderboardRef,
    list: query,
    refs: [query.playerId],
    isFresh: query.fresh ?? false,
    readPlaces: (source, [playerId]) => readPlace(source, playerId!),
    standingsOf: (standing) => (standing ? [standing] : []),
  });
  const { leaderboard, list, places, players, ageMs } =
    live ?? (await readAnyEntry(parts, { projectId, ref: leaderboardRef }, query));
  const shown = { players, me: undefined, isOpen: !isOver(list) };
  const entry = places && showEntry(boardOf(leaderboard), places, shown);
  if (!entry) throw notFound("entry of this player");
  return { value: entry, ageMs };
};

const readAnyEntry = async (
  { transact, read, ranks }: LeaderboardParts,
  name: BoardName,
  query: ListQuery & { playerId: string },
) => {
  const { leaderboard, list, me } = await transact((work) => ask(work, name, query));
  const places = await readPlace({ transact, ranks, list }, me!);
  const players = await readListedPlayers(read, list.ref, places ? [places.playerId] : []);
  return { leaderboard, list, places, players, ageMs: 0 };
};
