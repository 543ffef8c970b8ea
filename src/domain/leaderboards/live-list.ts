import { notFound } from "../kernel/errors.ts";
import { isId } from "../kernel/ids.ts";
import type { Read } from "../kernel/read.ts";
import type { Transact } from "../kernel/work.ts";
import type { RankStore, Standing } from "../evaluation/boards/ranks.ts";
import type { Leaderboard } from "../progression/leaderboard.ts";
import { unknownPlayer } from "../progression/players/players.ts";
import type { BoardCache } from "./board-cache.ts";
import { type AskedList, askedList, type BoardList, listOf, type ListQuery } from "./board-list.ts";
import { type Facts, type PlayerRef, readFacts } from "./live-facts.ts";
import type { ListedPlayer } from "./names.ts";
import type { PlacesSource } from "./places.ts";

export type LeaderboardParts = {
  transact: Transact;
  ranks: RankStore;
  /** Within the caller's scope. */
  read: Read;
  clock: () => Date;
  boards: BoardCache;
};

/** What is read of an open list: the ranks, and everything about them at a later moment. */
export type LiveList<P> = {
  leaderboard: Leaderboard;
  list: BoardList;
  behindSeconds: number;
  places: P;
  players: ReadonlyMap<string, ListedPlayer>;
  /** Ids of the players whom the query names, in order. */
  refIds: string[];
};

/** `refs`: players whom the query names. */
export type LiveQuery<P> = {
  projectId: string;
  leaderboardRef: string;
  list: ListQuery;
  refs: readonly string[];
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
 * Reads places of a board's current list, while that is open, without a transaction: definition and players
 * are guessed from what the process remembers, the ranks are read, and one statement then says everything
 * else, and whether the guesses were right. If not, it begins again with what was learned.
 * @returns undefined where this does not serve: the list is another one, is not open, or keeps changing
 * @throws DomainError NOT_FOUND, VALIDATION_ERROR, SERVICE_UNAVAILABLE
 */
export const readLive = async <P>(
  parts: LeaderboardParts,
  query: LiveQuery<P>,
): Promise<LiveList<P> | undefined> => {
  const refs = query.refs.map(refOf);
  let learned: Facts | undefined;
  for (let tried = 0; tried < TRIES; tried++) {
    const found = await attempt(parts, query, { refs, learned });
    if (found === "OTHER") return undefined;
    if ("players" in found && "leaderboard" in found) return found;
    learned = found;
  }
  return undefined;
};

type Guess = { refs: readonly PlayerRef[]; learned: Facts | undefined };

/** What is read, by what the process remembers. */
type Plan = {
  leaderboard: Leaderboard;
  configVersion: string;
  asked: AskedList;
  list: BoardList;
  /** Ids of the players whom the query names; undefined where one has to be looked up first. */
  guessed: string[] | undefined;
  now: Date;
};

const planOf = async <P>(
  { read, clock, boards }: LeaderboardParts,
  { projectId, leaderboardRef, list }: LiveQuery<P>,
  { refs, learned }: Guess,
): Promise<Plan> => {
  const now = clock();
  const { leaderboard, configVersion } = await boards.board(read, projectId, leaderboardRef);
  const asked = askedList(leaderboard, list, now);
  const ids = refs.map(
    ({ id, externalUserId }, n) => learned?.refIds[n] ?? id ?? boards.playerId(projectId, externalUserId!),
  );
  const guessed = ids.every((id) => id !== undefined) ? ids : undefined;
  // Another list than the current one is not known without its row.
  const known = asked.window ? listOf(leaderboard, asked, undefined) : undefined;
  return { leaderboard, configVersion, asked, list: known!, guessed, now };
};

const attempt = async <P>(
  parts: LeaderboardParts,
  query: LiveQuery<P>,
  guess: Guess,
): Promise<LiveList<P> | Facts | "OTHER"> => {
  const { ranks, transact, read } = parts;
  const plan = await planOf(parts, query, guess);
  const { leaderboard, asked, list, guessed, now } = plan;
  if (!asked.window) return "OTHER";
  const source = { transact, ranks, list, shown: leaderboard.definition.displayLimit ?? Infinity, now };
  const places = guessed && (await query.readPlaces(source, guessed));
  const standings = places === undefined ? [] : query.standingsOf(places);
  const facts = await readFacts(read, now, {
    leaderboard,
    asked,
    periodId: list.ref.periodId,
    playerIds: standings.map(({ playerId }) => playerId),
    refs: guess.refs,
  });
  if (!facts) throw notFound("leaderboard");
  const refIds = knownIds(parts.boards, query, { ...guess, learned: facts });
  return judge(plan, { facts, places, refIds }, () =>
    parts.boards.forget(query.projectId, query.leaderboardRef),
  );
};

/** Returns the ids of the players whom the query names, and remembers them. @throws DomainError NOT_FOUND */
const knownIds = <P>(
  boards: BoardCache,
  { projectId, refs: names }: LiveQuery<P>,
  { refs, learned }: Guess,
): string[] =>
  (learned?.refIds ?? []).map((id, n) => {
    if (id === null) throw unknownPlayer(names[n]!);
    const { externalUserId } = refs[n]!;
    if (externalUserId !== null) boards.keepPlayer(projectId, externalUserId, id);
    return id;
  });

type Seen<P> = { facts: Facts; places: P | undefined; refIds: string[] };

/** Holds the guesses against the facts. */
const judge = <P>(
  { leaderboard, configVersion, asked, list, guessed }: Plan,
  { facts, places, refIds }: Seen<P>,
  forget: () => void,
): LiveList<P> | Facts | "OTHER" => {
  const { row, behindSeconds, players } = facts;
  if (facts.configVersion !== configVersion) {
    forget();
    return facts;
  }
  if (row && (row.status !== "OPEN" || row.id !== list.ref.periodId)) return "OTHER";
  if (places === undefined || refIds.some((id, n) => id !== guessed![n])) return facts;
  return { leaderboard, list: listOf(leaderboard, asked, row), behindSeconds, places, players, refIds };
};
