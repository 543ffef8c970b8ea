import { sql } from "kysely";
import { z } from "zod";
import { getDefinition } from "../economy/definitions/definitions.ts";
import { segmentKind } from "../economy/segments/members.ts";
import {
  FIXED_KEY,
  keyWithResets,
  type ListStatus,
  periodIdOf,
  type Timed,
  type Window,
  windowAt,
  windowOf,
} from "../evaluation/boards/board.ts";
import { breakdownNameOf } from "../evaluation/boards/lists.ts";
import {
  FROZEN_MAX,
  type PeriodRef,
  type Ranked,
  type RankPage,
  type RankStore,
  type Standing,
} from "../evaluation/boards/ranks.ts";
import { DomainError, invalid, notFound } from "../kernel/errors.ts";
import { isoOf } from "../kernel/iso-time.ts";
import { PAGE_DEPTH_MAX, PAGE_LIMIT_DEFAULT } from "../kernel/paging.ts";
import type { Transact, Work } from "../kernel/work.ts";
import { windowStart } from "./open-lists.ts";
import type { Leaderboard } from "../progression/load-plan.ts";

export const LIST_STATUSES = [
  "OPEN",
  "CLOSING",
  "CLOSED",
  "ARCHIVED",
] as const satisfies readonly ListStatus[];

/** One ranking of a leaderboard: of one window and, with a breakdown, of one of its values. */
export type BoardList = {
  ref: PeriodRef;
  key: string;
  board: string;
  startsAt: Date;
  endsAt: Date | null;
  status: ListStatus;
  /** Number of participants; known once the period is closed. */
  participants: number;
};

/** `period`: a window's key, default the current one. `board`: the value of the breakdown. */
export type ListQuery = { period?: string | undefined; board?: string | undefined };

/** Whether a list is final and no longer in the rank index. */
export const isOver = ({ status }: Pick<BoardList, "status">): boolean =>
  status === "CLOSED" || status === "ARCHIVED";

const timedOf = ({ definition, resets }: Leaderboard): Timed => ({ period: definition.period, resets });

/** Returns the requested value of the breakdown. @throws DomainError VALIDATION_ERROR */
const boardIn = ({ definition }: Leaderboard, board: string | undefined): string => {
  const breakdown = breakdownNameOf(definition);
  if (breakdown === undefined) {
    if (board) throw invalid("board", "the leaderboard has no breakdown: omit board");
    return "";
  }
  if (!board) throw invalid("board", `the leaderboard has one for each value of ${breakdown}`);
  return board;
};

/** Returns the key of the default window. */
const currentKey = (leaderboard: Leaderboard, now: Date): string | undefined => {
  const window = windowAt(timedOf(leaderboard), now.getTime());
  if (window) return window.key;
  // Also used before its start and after its end.
  const isFixed = leaderboard.definition.period.kind === "FIXED";
  return isFixed ? keyWithResets(FIXED_KEY, leaderboard.resets) : undefined;
};

const LIST_COLUMNS = sql`id, starts_at as "startsAt", ends_at as "endsAt", status, participants`;

/** A list's row; times as the database returns them. */
export type ListRow = {
  id: string;
  startsAt: Date | null;
  endsAt: Date | null;
  status: ListStatus;
  participants: number;
};

/** Returns a window's list before it has a row: nobody has scored in it. */
const emptyRow = (
  leaderboard: Leaderboard,
  { key, startsAtMs, endsAtMs }: Window,
  board: string,
): ListRow => ({
  id: periodIdOf(leaderboard, key, board),
  startsAt: startsAtMs === null ? null : new Date(startsAtMs),
  endsAt: endsAtMs === null ? null : new Date(endsAtMs),
  status: "OPEN",
  participants: 0,
});

const readRow = async (
  { db }: Work,
  { projectId, id }: Leaderboard,
  { key, board }: { key: string; board: string },
): Promise<ListRow | undefined> => {
  const found = await sql<ListRow>`
    select ${LIST_COLUMNS} from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${id}
      and period_key = ${key} and board = ${board}`.execute(db);
  return found.rows[0];
};

/** The window that a query names. `window`: only of the current one, which exists without a row. */
type AskedWindow = { key: string; window: Window | undefined };

/** The list that a query names. */
export type AskedList = AskedWindow & { board: string };

/** @param period its key, default the current one. @throws DomainError NOT_FOUND where none is current */
const askedWindow = (leaderboard: Leaderboard, period: string | undefined, now: Date): AskedWindow => {
  const current = currentKey(leaderboard, now);
  const key = period ?? current;
  if (key === undefined) throw notFound("period");
  return { key, window: key === current ? windowOf(timedOf(leaderboard), key) : undefined };
};

/** @throws DomainError NOT_FOUND where no window is the default; VALIDATION_ERROR for a board */
export const askedList = (leaderboard: Leaderboard, query: ListQuery, now: Date): AskedList => {
  const board = boardIn(leaderboard, query.board);
  return { board, ...askedWindow(leaderboard, query.period, now) };
};

/** Returns the list of a row, or one that has no row yet. @throws DomainError NOT_FOUND */
export const listOf = (
  leaderboard: Leaderboard,
  { key, board, window }: AskedList,
  held: ListRow | undefined,
): BoardList => {
  const row = held ?? (window && emptyRow(leaderboard, window, board));
  if (!row) throw notFound("period");
  const { projectId, definition, resetAt, createdAt } = leaderboard;
  return {
    ref: { projectId, periodId: row.id, ties: definition.ties },
    key,
    board,
    startsAt: row.startsAt ?? resetAt ?? createdAt,
    endsAt: row.endsAt,
    status: row.status,
    participants: row.participants,
  };
};

/**
 * Finds a list by its window's key. The current window exists even when nobody has scored in it yet.
 * @throws DomainError NOT_FOUND for an unknown period; VALIDATION_ERROR for a board
 */
export const findList = async (
  work: Work,
  leaderboard: Leaderboard,
  query: ListQuery,
): Promise<BoardList> => {
  const asked = askedList(leaderboard, query, work.now);
  return listOf(leaderboard, asked, await readRow(work, leaderboard, asked));
};

/** A window of a board as it is shown. */
export type ShownWindow = Pick<BoardList, "key" | "startsAt" | "endsAt" | "status">;

export const WindowBody = z.object({
  key: z.string().meta({ example: "2026-W02" }),
  startsAt: z.iso.datetime(),
  endsAt: z.iso.datetime().nullable(),
  status: z.enum(LIST_STATUSES),
});

/** Returns a window as the API shows it. */
export const showWindow = ({ key, startsAt, endsAt, status }: ShownWindow): z.output<typeof WindowBody> => ({
  key,
  startsAt: startsAt.toISOString(),
  endsAt: isoOf(endsAt),
  status,
});

/**
 * Finds a window by its key, whatever lists a breakdown has made of it; it is as open as the most open one.
 * @throws DomainError NOT_FOUND for an unknown period
 */
export const findWindow = async (
  work: Work,
  leaderboard: Leaderboard,
  period: string | undefined,
): Promise<ShownWindow> => {
  const asked = askedWindow(leaderboard, period, work.now);
  const { projectId, id } = leaderboard;
  const found = await sql<ListRow>`
    select ${LIST_COLUMNS} from leaderboard_periods
    where project_id = ${projectId} and leaderboard_id = ${id} and period_key = ${asked.key}
    order by array_position(${`{${LIST_STATUSES.join(",")}}`}::text[], status) limit 1`.execute(work.db);
  return listOf(leaderboard, { ...asked, board: "" }, found.rows[0]);
};

const COLUMNS = sql`
  position, rank, player_id as "playerId", rank_score as "rankScore", rank_tie as "rankTie"`;

/** Reads places of a closed period from the 0-based `offset` on. */
const resultsPage = async (
  { db }: Work,
  { projectId, periodId }: PeriodRef,
  { offset, limit }: { offset: number; limit: number },
): Promise<Standing[]> => {
  const result = await sql<Standing>`
    select ${COLUMNS} from leaderboard_results
    where project_id = ${projectId} and period_id = ${periodId} and position >= ${offset}
    order by position limit ${limit}`.execute(db);
  return result.rows;
};

/** Reads a player's place in a closed period. */
const resultOf = async (
  { db }: Work,
  { projectId, periodId }: PeriodRef,
  playerId: string,
): Promise<Standing | undefined> => {
  const result = await sql<Standing>`
    select ${COLUMNS} from leaderboard_results
    where project_id = ${projectId} and period_id = ${periodId} and player_id = ${playerId}`.execute(db);
  return result.rows[0];
};

/** Maximum number of places examined for the players of a segment. */
export const SCOPE_EXAMINED_MAX = 10_000;

export type Scope = { segmentKey: string };

const SEGMENT = /^segment:(.+)$/;
const LATER = /^(friends|group:.+|league)$/;

/** Parses `scope`. @throws DomainError VALIDATION_ERROR */
export const scopeOf = (scope: string | undefined): Scope | undefined => {
  if (scope === undefined) return undefined;
  if (LATER.test(scope)) throw invalid("scope", `${scope} is not available yet`);
  const segmentKey = SEGMENT.exec(scope)?.[1];
  if (segmentKey === undefined) throw invalid("scope", "must be segment: and the key of a segment");
  return { segmentKey };
};

/** @throws DomainError NOT_FOUND for a segment that the project does not have */
export const checkSegment = async (work: Work, projectId: string, { segmentKey }: Scope): Promise<void> => {
  await getDefinition(work, projectId, segmentKind, segmentKey);
};

/** Returns those of `standings` whose players are in the segment, in order. */
const inSegment = async (
  { db }: Work,
  { projectId, segmentKey }: Scope & { projectId: string },
  standings: readonly Standing[],
): Promise<Standing[]> => {
  if (standings.length === 0) return [];
  const ids = `{${standings.map(({ playerId }) => playerId).join(",")}}`;
  const result = await sql<{ player_id: string }>`
    select player_id from player_segments
    where project_id = ${projectId} and segment_key = ${segmentKey}
      and player_id = any(${ids}::uuid[])`.execute(db);
  const members = new Set(result.rows.map((row) => row.player_id));
  return standings.filter(({ playerId }) => members.has(playerId));
};

export const AROUND_LIMIT_DEFAULT = 11;
/** Number of places per read of the rank index, when many are examined. */
const EXAMINED_AT_ONCE = 1_000;

/** Where places of a list are read from. */
export type ListSource = { transact: Transact; ranks: RankStore; list: BoardList };

/** `shown`: how many of the places pages show. */
export type PlacesSource = ListSource & { shown: number; now: Date };

type PlacesQuery = {
  page?: number | undefined;
  limit?: number | undefined;
  cursor?: string | undefined;
  asOf?: string | undefined;
  scope?: Scope | undefined;
  /** Id of a player. */
  around?: string | undefined;
};

export type Places = {
  standings: Standing[];
  page: number;
  limit: number;
  total: number;
  asOf: string | null;
  isLive: boolean;
  isEstimated: boolean;
  nextCursor: string | null;
};

type Range = { page: number; limit: number; offset: number };

/** Reads the places that a query asks for. @throws DomainError, see readEntries */
export const readPlaces = async (source: PlacesSource, query: PlacesQuery): Promise<Places> => {
  const { page = 1, around, cursor, scope } = query;
  if (around !== undefined) return placesAround(source, around, query.limit ?? AROUND_LIMIT_DEFAULT);
  const limit = query.limit ?? PAGE_LIMIT_DEFAULT;
  if (page * limit > PAGE_DEPTH_MAX)
    throw invalid("page", `page times limit may be at most ${PAGE_DEPTH_MAX}; continue with cursor`);
  const range = { page, limit, offset: (page - 1) * limit };
  if (cursor !== undefined) return placesAfter(source, cursor, range);
  if (scope !== undefined) return placesOfSegment(source, scope, range);
  return query.asOf === undefined || isOver(source.list)
    ? placesAt(source, range)
    : placesAsOf(source, query.asOf, range);
};

/** Reads places from a position on: from the rank index, or from a period's final results. */
export const readAt = async (
  { transact, ranks, list }: ListSource,
  offset: number,
  limit: number,
): Promise<RankPage> => {
  if (!isOver(list)) return ranks.page(list.ref, offset, limit);
  const standings = await transact((work) => resultsPage(work, list.ref, { offset, limit }));
  return { standings, total: list.participants };
};

const placesAround = async (source: PlacesSource, playerId: string, limit: number): Promise<Places> => {
  const found = await readAround(source, playerId, limit);
  if (!found) throw notFound("entry of this player");
  const page = Math.floor((found.standings[0]?.position ?? 0) / limit) + 1;
  return { ...found, ...plain(source), page, limit };
};

/** Reads the places around a player, who is in the middle; undefined without an entry. */
export const readAround = async (
  source: ListSource,
  playerId: string,
  limit: number,
): Promise<RankPage | undefined> => {
  const { transact, ranks, list } = source;
  if (!isOver(list)) return ranks.around(list.ref, playerId, limit);
  const own = await transact((work) => resultOf(work, list.ref, playerId));
  return own && readAt(source, windowStart(own.position, list.participants, limit), limit);
};

/** Reads a player's own place. */
export const readPlace = async (
  { transact, ranks, list }: ListSource,
  playerId: string,
): Promise<Standing | undefined> =>
  isOver(list) ? transact((work) => resultOf(work, list.ref, playerId)) : ranks.standing(list.ref, playerId);

/** Properties of lines that come from a live board, or from one that is over. */
const plain = ({ list }: PlacesSource) => ({
  asOf: null,
  isLive: !isOver(list),
  isEstimated: false,
  nextCursor: null,
});

/** At least one, because the reply also contains the number of entries. */
const countTo = (shown: number, { offset, limit }: Range): number =>
  Math.max(1, Math.min(limit, shown - offset));

const within = (shown: number, { standings, total }: RankPage): RankPage => ({
  standings: standings.filter(({ position }) => position < shown),
  total: Math.min(total, shown),
});

const placesAt = async (source: PlacesSource, range: Range): Promise<Places> => {
  const found = await readAt(source, range.offset, countTo(source.shown, range));
  return answer(source, within(source.shown, found), range);
};

const answer = (source: PlacesSource, found: RankPage, { page, limit }: Range): Places => {
  const last = found.standings.at(-1);
  const isLast = last === undefined || last.position + 1 >= found.total || isOver(source.list);
  return { ...found, ...plain(source), page, limit, nextCursor: isLast ? null : cursorOf(last) };
};

const Cursor = z.tuple([z.int(), z.int(), z.uuid()]);

const cursorOf = ({ rankScore, rankTie, playerId }: Ranked): string =>
  Buffer.from(JSON.stringify([rankScore, rankTie, playerId])).toString("base64url");

const placeOf = (cursor: string): Ranked => {
  try {
    const text = Buffer.from(cursor, "base64url").toString();
    const [rankScore, rankTie, playerId] = Cursor.parse(JSON.parse(text));
    return { rankScore, rankTie, playerId };
  } catch {
    throw invalid("cursor", "is not a cursor returned by a page");
  }
};

const placesAfter = async (source: PlacesSource, cursor: string, range: Range): Promise<Places> => {
  const { ranks, list, shown } = source;
  if (isOver(list)) throw invalid("cursor", "closed periods have no cursors: use page");
  const found = await ranks.after(list.ref, placeOf(cursor), { skip: 0, limit: range.limit });
  return answer(source, within(shown, found), range);
};

/** Filters the first places of the board by membership. */
const placesOfSegment = async (
  source: PlacesSource,
  scope: Scope,
  { page, limit, offset }: Range,
): Promise<Places> => {
  const { transact, list, shown } = source;
  const most = Math.min(SCOPE_EXAMINED_MAX, shown);
  const examined: Standing[] = [];
  let total = 0;
  do {
    const part = await readAt(source, examined.length, Math.min(EXAMINED_AT_ONCE, most - examined.length));
    total = part.total;
    examined.push(...part.standings);
    if (part.standings.length === 0) break;
  } while (examined.length < Math.min(most, total));
  const { projectId } = list.ref;
  const members = await transact((work) => inSegment(work, { projectId, ...scope }, examined));
  const isEstimated = examined.length < Math.min(total, shown);
  const standings = members.slice(offset, offset + limit);
  return { ...plain(source), standings, total: members.length, page, limit, isEstimated };
};

const gone = () =>
  new DomainError("GONE", "asOf: this copy has expired; start again with now", {
    reason: "AS_OF_ENDED",
  });

/** Reads a page of a frozen copy; lines beyond it are read live, after its last line. */
const placesAsOf = async (source: PlacesSource, asked: string, range: Range): Promise<Places> => {
  const { ranks, list, shown, now } = source;
  const token = asked === "now" ? await ranks.freeze(list.ref, now) : asked;
  const read = (offset: number, limit: number) => ranks.frozen(list.ref, token, { now, offset, limit });
  const copy = await read(range.offset, range.limit);
  if (!copy) throw gone();
  const end = Math.min(FROZEN_MAX, copy.total);
  const missing = range.limit - copy.standings.length;
  const isBeyond = copy.total > FROZEN_MAX && missing > 0;
  if (!isBeyond) return { ...answer(source, within(shown, copy), range), asOf: token, isLive: false };
  const last = copy.standings.at(-1) ?? (await read(end - 1, 1))?.standings[0];
  const skip = Math.max(0, range.offset - end);
  const rest = last && (await ranks.after(list.ref, last, { skip, limit: missing }));
  const standings = [...copy.standings, ...(rest?.standings ?? [])];
  return { ...answer(source, within(shown, { standings, total: copy.total }), range), asOf: token };
};
