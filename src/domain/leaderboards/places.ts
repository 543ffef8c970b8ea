import { z } from "zod";
import { DomainError, invalid, notFound } from "../kernel/errors.ts";
import { PAGE_DEPTH_MAX, PAGE_LIMIT_DEFAULT } from "../kernel/paging.ts";
import type { Transact } from "../kernel/work.ts";
import { type BoardList, isOver } from "./board-list.ts";
import {
  FROZEN_MAX,
  type Ranked,
  type RankPage,
  type RankStore,
  type Standing,
} from "../evaluation/boards/ranks.ts";
import { resultOf, resultsPage } from "./results-pages.ts";
import { inSegment, type Scope, SCOPE_EXAMINED_MAX } from "./segment-places.ts";
import { windowStart } from "./standings.ts";

export const AROUND_LIMIT_DEFAULT = 11;
/** Number of places per read of the rank index, when many are examined. */
const EXAMINED_AT_ONCE = 1_000;

/** Where places of a list are read from. */
export type ListSource = { transact: Transact; ranks: RankStore; list: BoardList };

/** `shown`: how many of the places pages show. */
export type PlacesSource = ListSource & { shown: number; now: Date };

export type PlacesQuery = {
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
