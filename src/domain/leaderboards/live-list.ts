import type { Ranked, RankStore, Standing } from "../evaluation/boards/ranks.ts";
import { type Aged, type CacheSize, createSizedCache, type YoungCache } from "../kernel/caches.ts";
import { notFound } from "../kernel/errors.ts";
import { ageOfId, isId, ranksPart } from "../kernel/ids.ts";
import type { Read } from "../kernel/read.ts";
import type { Transact, Work } from "../kernel/work.ts";
import {
  type AskedList,
  askedList,
  type BoardList,
  listOf,
  type ListQuery,
  type ListRow,
  type PlacesSource,
} from "./board-list.ts";
import { unknownPlayer, uuids } from "../players/player-refs.ts";
import type { Leaderboard } from "../progression/load-plan.ts";
import { sql } from "kysely";
import type { Json } from "../kernel/events/events.ts";

/** A ranked player, as everybody may see them. */
export type Name = { externalUserId: string; displayName: string | null; avatarUrl: string | null };

/** Selects a name of the players `p`. */
const NAME = `
  p.external_user_id as "externalUserId", p.display_name as "displayName", p.avatar_url as "avatarUrl"`;

/** Returns names by player id; banned, deleted, merged or erased players are hidden and have none. */
export const readNames = async (
  { db }: Work,
  projectId: string,
  standings: readonly Pick<Ranked, "playerId">[],
): Promise<Map<string, Name>> => {
  if (standings.length === 0) return new Map();
  const { rows } = await sql<Name & { id: string }>`
    select p.id, ${sql.raw(NAME)} from players p
    where p.project_id = ${projectId} and p.id = any(${uuids(standings.map(({ playerId }) => playerId))})
      and p.status not in ('BANNED', 'MERGED', 'ERASED') and p.deleted_at is null`.execute(db);
  return new Map(rows.map(({ id, ...name }) => [id, name]));
};

/** Data of a player in a list beside the score: the ranks of the last notices, and the score's metadata. */
export type ListedPlayer = {
  name: Name;
  notified: number | null;
  notifiedBefore: number | null;
  meta: Json | null;
};

/** Maximum boards, and bytes of their definitions, that a process remembers. */
const BOARDS_KEPT = { items: 10_000, bytes: 8 * 1024 * 1024 };
/** Maximum external ids of players whose own ids a process remembers. */
const PLAYERS_KEPT = { items: 20_000, bytes: 4 * 1024 * 1024 };
/** Bytes of a remembered id beside its name. */
const PLAYER_BYTES = 150;

/** Definitions of boards, and ids of players. */
type Remembered = "boards" | "players";
type OnLookUp = (of: Remembered, isHit: boolean) => void;

/** A board as it is in one version of its project's configuration. */
type KnownBoard = { configVersion: number; leaderboard: Leaderboard };

type BoardRow = Omit<Leaderboard, "id" | "projectId"> & {
  configVersion: number;
  /** Null where the project has no such board. */
  id: string | null;
  bytes: number;
};

const BOARD = `
  select j.config_version as "configVersion", l.*, octet_length(l.definition::text) as bytes
  from projects j
  left join lateral (
    select id, key, name, status, definition, version, period_id as "periodId", resets,
      reset_at as "resetAt", opens_at as "opensAt", created_at as "createdAt", updated_at as "updatedAt"
    from leaderboards where project_id = j.id and (id = $2::uuid or key = $3::text)
    order by (id = $2::uuid) desc nulls last limit 1) l on true
  where j.id = $1::uuid`;

/**
 * What reads of boards remember between requests: definitions, and players' ids by their external ones. Both
 * are guesses that the statement of each read confirms, so they may be of any age; nothing is answered from
 * them alone.
 */
export class BoardCache {
  readonly #boards = createSizedCache<KnownBoard>(BOARDS_KEPT);
  readonly #players = createSizedCache<string>(PLAYERS_KEPT);
  readonly #onLookUp: OnLookUp;

  constructor(onLookUp: OnLookUp = () => undefined) {
    this.#onLookUp = onLookUp;
  }

  get sizes(): Record<Remembered, CacheSize> {
    return { boards: this.#boards.size, players: this.#players.size };
  }

  /** Returns a board by its id or key. @throws DomainError NOT_FOUND */
  async board(read: Read, projectId: string, ref: string): Promise<KnownBoard> {
    const known = this.#boards.get(`${projectId}:${ref}`);
    this.#onLookUp("boards", known !== undefined);
    return known ?? this.#read(read, projectId, ref);
  }

  async #read(read: Read, projectId: string, ref: string): Promise<KnownBoard> {
    const [row] = await read<BoardRow>({ text: BOARD, values: [projectId, isId(ref) ? ref : null, ref] });
    if (!row || row.id === null) throw notFound("leaderboard");
    const { configVersion, bytes, id, ...board } = row;
    const known = { configVersion, leaderboard: { ...board, id, projectId } };
    return this.#boards.keep(`${projectId}:${ref}`, known, { owner: projectId, bytes });
  }

  /** Forgets a board that has turned out to be of another version. */
  forget(projectId: string, ref: string): void {
    this.#boards.drop(`${projectId}:${ref}`);
  }

  /** Returns the id that an external id had; undefined where it is not remembered. */
  playerId(projectId: string, externalUserId: string): string | undefined {
    const known = this.#players.get(`${projectId}:${externalUserId}`);
    this.#onLookUp("players", known !== undefined);
    return known;
  }

  keepPlayer(projectId: string, externalUserId: string, playerId: string): void {
    const bytes = externalUserId.length + PLAYER_BYTES;
    this.#players.keep(`${projectId}:${externalUserId}`, playerId, { owner: projectId, bytes });
  }
}

/** What the database says about a list, whoever is on it. */
export type ListFacts = {
  configVersion: number;
  /** The list's row; undefined before it has one. */
  row: ListRow | undefined;
  /** Age of the oldest change that the rank index does not contain yet, in s. */
  behindSeconds: number;
};

type FactsRow = Pick<ListFacts, "configVersion"> &
  Omit<ListRow, "id"> & { id: string | null; waiting: string | null };

const LIST = `
  select j.config_version as "configVersion", w.id, w.starts_at as "startsAt", w.ends_at as "endsAt",
    coalesce(w.status, 'OPEN') as status, coalesce(w.participants, 0) as participants,
    (select k.outbox_ids[1] from outbox_q k where k.project_id = $1::uuid and k.part = $2::smallint
      order by k.seq limit 1) as waiting
  from projects j
  left join leaderboard_periods w on w.project_id = $1::uuid and w.leaderboard_id = $3::uuid
    and w.period_key = $4::text and w.board = $5::text
  where j.id = $1::uuid`;

/** Reads what is known of a list; undefined without the project. */
const readListFacts = async (
  read: Read,
  { leaderboard: { projectId, id }, asked }: { leaderboard: Leaderboard; asked: AskedList },
): Promise<ListFacts | undefined> => {
  const values = [projectId, ranksPart(projectId), id, asked.key, asked.board];
  const [found] = await read<FactsRow>({ text: LIST, values });
  if (!found) return undefined;
  const { configVersion, waiting, id: listId, ...row } = found;
  return {
    configVersion,
    row: listId === null ? undefined : { id: listId, ...row },
    behindSeconds: waiting === null ? 0 : Math.floor(ageOfId(waiting) / 1_000),
  };
};

/**
 * The plan does not hang on statistics: each player is looked up by primary keys, which `limit 1` keeps the
 * planner from turning into a join.
 */
const PLAYERS = `
  select p.id, ${NAME}, n.rank as notified, n.previous_rank as "notifiedBefore", e.meta
  from unnest($3::uuid[]) as u(id)
  cross join lateral (
    select id, external_user_id, display_name, avatar_url from players
    where project_id = $1::uuid and id = u.id and status not in ('BANNED', 'MERGED', 'ERASED')
      and deleted_at is null limit 1) p
  left join lateral (
    select rank, previous_rank from leaderboard_notices
    where project_id = $1::uuid and period_id = $2::uuid and player_id = u.id
      and told_at is not null limit 1) n on true
  left join lateral (
    select meta from leaderboard_entries
    where project_id = $1::uuid and period_id = $2::uuid and player_id = u.id limit 1) e on true`;

/** Returns players in a list by id, without those that are hidden, as `readNames`. */
export const readListedPlayers = async (
  read: Read,
  { projectId, periodId }: { projectId: string; periodId: string },
  playerIds: readonly string[],
): Promise<ReadonlyMap<string, ListedPlayer>> => {
  if (playerIds.length === 0) return new Map();
  const values = [projectId, periodId, `{${playerIds.join(",")}}`];
  const rows = await read<Name & Omit<ListedPlayer, "name"> & { id: string }>({ text: PLAYERS, values });
  return new Map(
    rows.map(({ id, notified, notifiedBefore, meta, ...name }) => [
      id,
      { name, notified, notifiedBefore, meta },
    ]),
  );
};

/** By id, then by external id; a player who was merged stands for the other. */
const RESOLVE = `
  select coalesce(q.merged_into, q.id) as id from players q
  where q.project_id = $1::uuid and (q.id = $2::uuid or q.external_user_id = $3::text)`;

/** A player by id or external id, as a query names them. */
type PlayerRef = { id: string | null; externalUserId: string | null };

/** Returns the id of a player whom a query names; undefined for an unknown one. */
const resolvePlayer = async (
  read: Read,
  projectId: string,
  { id, externalUserId }: PlayerRef,
): Promise<string | undefined> => {
  const rows = await read<{ id: string }>({ text: RESOLVE, values: [projectId, id, externalUserId] });
  return rows[0]?.id;
};

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
type LiveList<P> = {
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

type LiveQuery<P> = {
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
  const players = await readListedPlayers(read, list.ref, ids);
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
