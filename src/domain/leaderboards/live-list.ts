import { notFound } from "../kernel/errors.ts";
import { isId } from "../kernel/ids.ts";
import type { Read } from "../kernel/read.ts";
import type { Transact } from "../kernel/work.ts";
import type { Aged, YoungCache } from "../kernel/young-cache.ts";
import type { RankStore, Standing } from "../evaluation/boards/ranks.ts";
import type { Leaderboard } from "../progression/leaderboard.ts";
import { unknownPlayer } from "../players/player-refs.ts";
import type { BoardCache } from "./board-cache.ts";
import { type AskedList, askedList, type BoardList, listOf, type ListQuery } from "./board-list.ts";
import { type ListFacts, type PlayerRef, readListFacts, readPlayersOf, resolvePlayer } from "./live-facts.ts";
import type { ListedPlayer } from "./names.ts";
import type { PlacesSource } from "./places.ts";

export type LeaderboardParts = {
  transact: Transact;
  ranks: RankStore;
  /** Within the caller's scope. */
  read: Read;
  clock: () => Date;
  boards: BoardCache;
  /** Facts of lists, shared by everybody who reads one at about the same time. */
  listFacts: YoungCache<ListFacts | undefined>;
};

/** What is read of an open list: the ranks, and everything about them at a later moment. */
export type LiveList<P> = {
  leaderboard: Leaderboard;
  list: BoardList;
  behindSeconds: number;
  places: P;
  players: ReadonlyMap<string, ListedPlayer>;
  /** Ids of the players whom the query names, in order. */
  refIds: readonly string[];
  /** How long ago the oldest part of it was read, in ms. */
  ageMs: number;
};

export type LiveQuery<P> = {
  projectId: string;
  leaderboardRef: string;
  list: ListQuery;
  /** Players whom the query names. */
  refs: readonly string[];
  /** Whether nothing is to be taken from memory. */
  isFresh: boolean;
  /** Reads places from the rank index, given the ids of `refs`. */
  readPlaces: (source: PlacesSource, refIds: readonly string[]) => Promise<P>;
  standingsOf: (places: P) => readonly Standing[];
};

/** How often a read begins again because a guess was wrong, before transactions decide. */
const TRIES = 3;

const refOf = (ref: string): PlayerRef => {
  if (ref.startsWith("ext:")) return { id: null, externalUserId: ref.slice(4) };
  if (!isId(ref)) throw unknownPlayer(ref);
  return { id: ref, externalUserId: null };
};

/**
 * Reads places of a board's current list, while that is open, without a transaction: the definition is
 * guessed from what the process remembers and the players' ids from their names; the ranks are read, and with
 * them the facts of the list and then the players, which say whether the guesses were right. If not, it
 * begins again with what was learned.
 * @returns undefined where this does not serve: the list is another one, is not open, or keeps changing
 * @throws DomainError NOT_FOUND, VALIDATION_ERROR, SERVICE_UNAVAILABLE
 */
export const readLive = async <P>(
  parts: LeaderboardParts,
  query: LiveQuery<P>,
): Promise<LiveList<P> | undefined> => {
  const refs = query.refs.map(refOf);
  let known: readonly string[] | undefined;
  for (let tried = 0; tried < TRIES; tried++) {
    const guessed = known ?? guessIds(parts.boards, query.projectId, refs);
    const refIds = guessed ?? (known = await resolveIds(parts, query, refs));
    // What others have just read may be what did not fit.
    const isFresh = query.isFresh || tried > 0;
    const found = await attempt(parts, { ...query, isFresh }, refIds);
    if (found === "OTHER_LIST") return undefined;
    if (found === "OTHER_VERSION") continue;
    if (known || areConfirmed(found, refs)) return found;
    // Of players who are shown the names are seen; of others they are looked up.
    known = await resolveIds(parts, query, refs);
    if (known.every((id, n) => id === refIds[n])) return found;
  }
  return undefined;
};

const guessIds = (
  boards: BoardCache,
  projectId: string,
  refs: readonly PlayerRef[],
): string[] | undefined => {
  const ids = refs.map(({ id, externalUserId }) => id ?? boards.playerId(projectId, externalUserId!));
  return ids.every((id) => id !== undefined) ? ids : undefined;
};

/** @throws DomainError NOT_FOUND */
const resolveIds = <P>(
  { read, boards }: LeaderboardParts,
  { projectId, refs: names }: LiveQuery<P>,
  refs: readonly PlayerRef[],
): Promise<string[]> =>
  Promise.all(
    refs.map(async (ref, n) => {
      const id = await resolvePlayer(read, projectId, ref);
      if (id === undefined) throw unknownPlayer(names[n]!);
      if (ref.externalUserId !== null) boards.keepPlayer(projectId, ref.externalUserId, id);
      return id;
    }),
  );

/** Whether the named players were read with their names, so that they are who was meant. */
const areConfirmed = <P>({ refIds, players }: LiveList<P>, refs: readonly PlayerRef[]): boolean =>
  refs.every(({ externalUserId }, n) => {
    const found = players.get(refIds[n]!);
    return found && (externalUserId === null || found.name.externalUserId === externalUserId);
  });

const attempt = async <P>(
  parts: LeaderboardParts,
  query: LiveQuery<P>,
  refIds: readonly string[],
): Promise<LiveList<P> | "OTHER_LIST" | "OTHER_VERSION"> => {
  const { ranks, transact, read, clock, boards } = parts;
  const { projectId, leaderboardRef } = query;
  const now = clock();
  const { leaderboard, configVersion } = await boards.board(read, projectId, leaderboardRef);
  const asked = askedList(leaderboard, query.list, now);
  // The id of another list than the current one is not known without its row.
  if (!asked.window) return "OTHER_LIST";
  const list = listOf(leaderboard, asked, undefined);
  const source = { transact, ranks, list, shown: leaderboard.definition.displayLimit ?? Infinity, now };
  const [places, found] = await Promise.all([
    query.readPlaces(source, refIds),
    factsOf(parts, { leaderboard, asked, isFresh: query.isFresh }),
  ]);
  const { value: facts, ageMs } = found;
  if (!facts) throw notFound("leaderboard");
  if (facts.configVersion !== configVersion) {
    boards.forget(projectId, leaderboardRef);
    return "OTHER_VERSION";
  }
  const { row, behindSeconds } = facts;
  if (row && (row.status !== "OPEN" || row.id !== list.ref.periodId)) return "OTHER_LIST";
  const ids = query.standingsOf(places).map(({ playerId }) => playerId);
  const players = await readPlayersOf(read, list.ref, ids);
  const shown = listOf(leaderboard, asked, row);
  return { leaderboard, list: shown, behindSeconds, places, players, refIds, ageMs };
};

type AskedFacts = { leaderboard: Leaderboard; asked: AskedList; isFresh: boolean };

/** Bytes of the facts of a list in memory, about. */
const FACTS_BYTES = 500;

const factsOf = (
  { read, listFacts }: LeaderboardParts,
  { leaderboard, asked, isFresh }: AskedFacts,
): Promise<Aged<ListFacts | undefined>> => {
  const { projectId, id } = leaderboard;
  const key = `${projectId}:${id}:${asked.key}:${asked.board}`;
  const make = async () => ({
    value: await readListFacts(read, { leaderboard, asked }),
    bytes: FACTS_BYTES + key.length,
  });
  return listFacts.get({ projectId, owner: projectId, key }, { isFresh, make });
};
