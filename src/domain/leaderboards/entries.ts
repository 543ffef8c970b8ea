import { DomainError, notFound } from "../kernel/errors.ts";
import type { Aged } from "../kernel/young-cache.ts";
import { getPlayer } from "../progression/players/players.ts";
import type { Work } from "../kernel/work.ts";
import { secondsBehind } from "./behind.ts";
import { type BoardList, findList, isOver, type ListQuery } from "./board-list.ts";
import {
  checkQuery,
  type EntriesQuery,
  type LeaderboardEntry,
  type LeaderboardView,
  showEntry,
  showView,
} from "./entries-view.ts";
import { boardOf, type Leaderboard } from "../progression/leaderboard.ts";
import { getLeaderboard } from "./leaderboards.ts";
import { type LeaderboardParts, readLive } from "./live-list.ts";
import { readListedPlayers } from "./names.ts";
import { type Places, readPlace, readPlaces } from "./places.ts";
import type { Standing } from "../evaluation/boards/ranks.ts";
import { checkSegment, type Scope, scopeOf } from "./segment-places.ts";

export { AROUND_LIMIT_DEFAULT } from "./places.ts";
export type { EntriesQuery, LeaderboardEntry, LeaderboardView } from "./entries-view.ts";
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
  { transact, ranks }: LeaderboardParts,
  name: BoardName,
  query: EntriesQuery,
): Promise<LeaderboardView> => {
  const asked = await transact((work) => ask(work, name, query));
  const { leaderboard, list, scope, around, me, now } = asked;
  const source = { transact, ranks, list, shown: leaderboard.definition.displayLimit ?? Infinity, now };
  const places = await readPlaces(source, { ...query, scope, around });
  const mine = me === undefined ? undefined : await readPlace(source, me);
  const standings = standingsOf({ places, mine });
  const players = await transact((work) => readListedPlayers(work, list.ref, standings));
  return showView({ ...asked, places, mine, players, me });
};

/** `fresh`: as it is now, and not as it was a moment ago. */
export type EntryQuery = ListQuery & { playerId: string; fresh?: boolean | undefined };

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
  { transact, ranks }: LeaderboardParts,
  name: BoardName,
  query: ListQuery & { playerId: string },
) => {
  const { leaderboard, list, me } = await transact((work) => ask(work, name, query));
  const places = await readPlace({ transact, ranks, list }, me!);
  const players = await transact((work) => readListedPlayers(work, list.ref, places ? [places] : []));
  return { leaderboard, list, places, players, ageMs: 0 };
};
