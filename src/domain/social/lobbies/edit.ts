import { type RawBuilder, sql } from "kysely";
import { conflict, forbidden, invalid, notFound } from "../../kernel/errors.ts";
import type {
  LobbyActor,
  LobbyChange,
  LobbyMember,
  LobbyOccurrence,
  LobbyResult,
  LobbyStatus,
  LobbyView,
  LobbyVisibility,
  Occurrence,
} from "../../kernel/events/social-views.ts";
import type { EventData, EventType } from "../../kernel/events/domain-events.ts";
import type { Json, PlayerRef } from "../../kernel/events/events.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import { unansweredKept } from "../../kernel/statements.ts";
import { countRows, type Total, type Work } from "../../kernel/work.ts";
import { closeLobbyChannel } from "../chat/channels.ts";
import {
  dueAt,
  getLobby,
  isListed,
  type LobbyRef,
  type LobbyState,
  type Lock,
  lockLobby,
  type Member,
  memberOf,
  playersOf,
  readLobbies,
} from "./state.ts";

/** Returns the acting player. @throws DomainError VALIDATION_ERROR for a server that names none */
const playerOf = (actor: LobbyActor): string => {
  if (actor.kind === "PLAYER") return actor.playerId;
  throw invalid("playerId", "is required: the player whose seat it is");
};

/** Returns the acting member. @throws DomainError VALIDATION_ERROR; CONFLICT NOT_IN_LOBBY */
export const actingMember = (lobby: LobbyState, actor: LobbyActor): Member => {
  const member = memberOf(lobby, playerOf(actor));
  if (!member) throw notInLobby();
  return member;
};

export const notInLobby = () => conflict("NOT_IN_LOBBY", "the player is not in the lobby");

export const isHost = ({ hostPlayerId }: LobbyState, actor: LobbyActor): boolean =>
  actor.kind === "PLAYER" && actor.playerId === hostPlayerId;

/** Servers and the console may do what the host may. @throws DomainError FORBIDDEN NOT_HOST */
export const requireHost = (lobby: LobbyState, actor: LobbyActor): void => {
  if (actor.kind === "PLAYER" && !isHost(lobby, actor))
    throw forbidden("NOT_HOST", "only the host of the lobby may do this");
};

/** Returns a lobby as the actor of a change may see it: members and servers see `privateData`. */
export const lobbyFor = (lobby: LobbyView, actor: LobbyActor): LobbyView => {
  if (actor.kind !== "PLAYER") return lobby;
  if (lobby.members.some(({ playerId }) => playerId === actor.playerId)) return lobby;
  const { privateData: _hidden, ...seen } = lobby;
  return seen;
};

/** External ids of players by id. */
export type People = ReadonlyMap<string, string>;

/** Reads the players named in the results of lobbies; no statement where there are none. */
const readPeople = async (work: Work, lobbies: readonly LobbyState[]): Promise<People> => {
  const ids = lobbies.flatMap(({ results }) => (results ?? []).map(({ playerId }) => playerId));
  return ids.length === 0 ? new Map() : findPeople(work, lobbies[0]!.projectId, ids);
};

/** Returns external ids of players of a project; unknown ones are absent. */
export const findPeople = async (
  { db }: Work,
  projectId: string,
  ids: readonly string[],
): Promise<People> => {
  const { rows } = await sql<{ id: string; externalUserId: string }>`
    select id, external_user_id as "externalUserId" from players
    where project_id = ${projectId} and id = any(${`{${ids.join(",")}}`}::uuid[])`.execute(db);
  return new Map(rows.map(({ id, externalUserId }) => [id, externalUserId]));
};
export const showMember = ({ hostPlayerId }: LobbyState, member: Member): LobbyMember => ({
  playerId: member.playerId,
  externalUserId: member.externalUserId,
  displayName: member.displayName,
  status: member.status,
  isHost: member.playerId === hostPlayerId,
  role: member.role,
  team: member.team,
  slot: member.slot,
  data: member.data,
  joinedAt: member.joinedAt.toISOString(),
});

export const playerRef = ({ playerId, externalUserId }: PlayerRef): PlayerRef => ({
  playerId,
  externalUserId,
});

const showResults = ({ results }: LobbyState, people: People): LobbyResult[] | null =>
  results?.map((result) => ({ ...result, externalUserId: people.get(result.playerId) ?? "" })) ?? null;

type Showing = { people: People; isPrivate: boolean };

/** Converts a lobby to its API form; `isPrivate` for members and servers, who see `privateData`. */
const showLobby = (lobby: LobbyState, { people, isPrivate }: Showing): LobbyView => ({
  id: lobby.id,
  code: lobby.code,
  name: lobby.name,
  mode: lobby.mode,
  visibility: lobby.visibility,
  hasPasscode: lobby.passcodeHash !== null,
  status: lobby.status,
  hostPlayerId: lobby.hostPlayerId,
  minPlayers: lobby.minPlayers,
  maxPlayers: lobby.maxPlayers,
  memberCount: playersOf(lobby).length,
  settings: lobby.settings,
  metadata: lobby.metadata,
  ...(isPrivate ? { privateData: lobby.privateData } : {}),
  version: lobby.version,
  channelId: lobby.channelId,
  matchId: lobby.matchId,
  startsAt: isoOf(lobby.startsAt),
  startedAt: isoOf(lobby.startedAt),
  endedAt: isoOf(lobby.endedAt),
  closeReason: lobby.closeReason,
  results: showResults(lobby, people),
  members: lobby.members.map((member) => showMember(lobby, member)),
  expiresAt: lobby.expiresAt.toISOString(),
  createdAt: lobby.createdAt.toISOString(),
  updatedAt: lobby.updatedAt.toISOString(),
});

/**
 * Returns the lobby as `actor` may see it: a private one is visible to everybody who knows its id, but only
 * members and servers see `privateData`.
 * @throws DomainError NOT_FOUND
 */
export const readLobby = async (work: Work, ref: LobbyRef, actor: LobbyActor): Promise<LobbyView> => {
  const lobby = await getLobby(work, ref);
  const people = await readPeople(work, [lobby]);
  return lobbyFor(showLobby(lobby, { people, isPrivate: true }), actor);
};

/**
 * Returns the lobby that currently has a code; codes of closed ones are invalid. @throws DomainError
 * NOT_FOUND
 */
export const findLobbyId = async ({ db }: Work, projectId: string, code: string): Promise<string> => {
  const { rows } = await sql<{ id: string }>`
    select id from lobbies
    where project_id = ${projectId} and code = ${code.toUpperCase()} and status <> 'CLOSED'`.execute(db);
  if (!rows[0]) throw notFound("lobby");
  return rows[0].id;
};

/** Returns the versions of many lobbies by id, in one statement; deleted ones are absent. */
export const readLobbyVersions = async (
  { db }: Work,
  refs: readonly LobbyRef[],
): Promise<Map<string, number>> => {
  const { rows } = await sql<{ id: string; version: number }>`
    select l.id, l.version
    from json_to_recordset(${JSON.stringify(refs)}::json) as x("projectId" uuid, "lobbyId" uuid)
    join lobbies l on l.project_id = x."projectId" and l.id = x."lobbyId"`.execute(db);
  return new Map(rows.map(({ id, version }) => [id, version]));
};

/** Orders of the list. */
export const LOBBY_ORDERS = {
  by: { createdAt: sql`l.created_at`, updatedAt: sql`l.updated_at`, memberCount: sql`l.member_count` },
  usual: "desc",
} as const;

type ListLobbies = PageQuery &
  Ordered<SortOf<typeof LOBBY_ORDERS>> & {
    mode?: string | undefined;
    status: LobbyStatus;
    visibility?: LobbyVisibility | undefined;
    hasSpace?: boolean | undefined;
    /** Required metadata, by key. */
    meta?: Readonly<Record<string, string>> | undefined;
  };

/** A query only has texts: `5` and `true` also match the number and the boolean. */
const isLiteral = (text: string): boolean => /^(true|false|-?\d{1,15}(\.\d{1,15})?)$/.test(text);

const hasMeta = (key: string, text: string): RawBuilder<unknown> => {
  const holds = (value: unknown) => sql`l.metadata @> ${JSON.stringify({ [key]: value })}::jsonb`;
  if (!isLiteral(text)) return holds(text);
  return sql`(${holds(text)} or ${holds(JSON.parse(text.replace(/^(-?)0+(?=\d)/, "$1")))})`;
};

const whereOf = (projectId: string, actor: LobbyActor, query: ListLobbies): RawBuilder<unknown> => {
  const parts = [sql`l.project_id = ${projectId}`, sql`l.status = ${query.status}`];
  // Players find private ones by id, code or invitation.
  if (actor.kind === "PLAYER") parts.push(sql`l.visibility = 'PUBLIC'`);
  if (query.visibility !== undefined) parts.push(sql`l.visibility = ${query.visibility}`);
  if (query.mode !== undefined) parts.push(sql`l.mode = ${query.mode}`);
  if (query.hasSpace === true) parts.push(sql`l.member_count < l.max_players`);
  if (query.hasSpace === false) parts.push(sql`l.member_count >= l.max_players`);
  for (const [key, text] of Object.entries(query.meta ?? {})) parts.push(hasMeta(key, text));
  return sql`where ${sql.join(parts, sql` and `)}`;
};

/** `stats` may be large, and a page has many lobbies: they are only returned for a single lobby. */
const withoutStats = (lobby: LobbyView): LobbyView => ({
  ...lobby,
  results: lobby.results?.map(({ stats: _stats, ...result }) => result) ?? null,
});

/**
 * Lists lobbies without `privateData` and the `stats` of results, with the total number. Players see public
 * ones.
 */
export const listLobbies = async (
  work: Work,
  projectId: string,
  actor: LobbyActor,
  query: ListLobbies,
): Promise<Total & { lobbies: LobbyView[] }> => {
  const where = whereOf(projectId, actor, query);
  const found = await readLobbies(
    work,
    sql`${where} order by ${orderBy(LOBBY_ORDERS, query, sql`l.id`)}
      limit ${query.limit} offset ${offsetOf(query)}`,
  );
  const people = await readPeople(work, found);
  const lobbies = found.map((lobby) => withoutStats(showLobby(lobby, { people, isPrivate: false })));
  return { lobbies, ...(await countRows(work, sql`lobbies l ${where}`)) };
};

/** A game that begins. */
type NewMatch = { id: string; playerIds: string[]; startedAt: Date };

const memberRow = (member: Member, now: Date) => {
  const isActive = ["JOINED", "READY", "DISCONNECTED"].includes(member.status);
  return {
    p: member.playerId,
    m: member.seatKey,
    s: member.status,
    r: member.role,
    rd: member.isReady,
    t: member.team,
    sl: member.slot,
    d: member.data,
    pr: member.presence,
    g: isoOf(member.graceUntil),
    j: member.joinedAt.toISOString(),
    l: isActive ? null : now.toISOString(),
  };
};

const matchRows = (match: NewMatch | undefined): string =>
  JSON.stringify(match ? [{ id: match.id, p: match.playerIds, at: match.startedAt.toISOString() }] : []);

const lobbyRow = (lobby: LobbyState) => ({
  ...lobby,
  members: undefined,
  memberCount: playersOf(lobby).length,
  spectatorCount: lobby.members.length - playersOf(lobby).length,
});

/** Writes a lobby, its changed members and a beginning game: one statement. */
const writeLobby = async ({ work, lobby, touched, match }: LobbyEdit): Promise<void> => {
  const members = [...touched.values()].map((member) => memberRow(member, work.now));
  const { projectId, id } = lobby;
  await unansweredKept(
    work.db,
    sql`
    with m as (
      insert into lobby_members as m (project_id, lobby_id, player_id, mode, status, role, is_ready, team,
        slot, data, presence, grace_until, joined_at, left_at)
      select ${projectId}::uuid, ${id}::uuid, p, m, s, r, rd, t, sl, d, pr, g, j, l
      from json_to_recordset(${JSON.stringify(members)}::json) as x(p uuid, m text, s text, r text,
        rd boolean, t smallint, sl smallint, d jsonb, pr text, g timestamptz, j timestamptz, l timestamptz)
      on conflict (project_id, lobby_id, player_id) do update set
        mode = excluded.mode, status = excluded.status, role = excluded.role, is_ready = excluded.is_ready,
        team = excluded.team, slot = excluded.slot, data = excluded.data, presence = excluded.presence,
        grace_until = excluded.grace_until, joined_at = excluded.joined_at, left_at = excluded.left_at),
    g as (
      insert into lobby_matches (project_id, id, lobby_id, players, started_at)
      select ${projectId}::uuid, x.id, ${id}::uuid, p, at
      from json_to_recordset(${matchRows(match)}::json) as x(id uuid, p jsonb, at timestamptz))
    update lobbies l set
      name = x.name, visibility = x.visibility, passcode_hash = x."passcodeHash", status = x.status,
      host_player_id = x."hostPlayerId", max_players = x."maxPlayers", member_count = x."memberCount",
      spectator_count = x."spectatorCount", settings = x.settings, metadata = x.metadata,
      private_data = x."privateData", version = x.version, match_id = x."matchId", seed = x.seed,
      starts_at = x."startsAt", started_at = x."startedAt", ended_at = x."endedAt",
      close_reason = x."closeReason", results = x.results, due_at = x."dueAt", expires_at = x."expiresAt",
      updated_at = x."updatedAt"
    from json_to_record(${JSON.stringify(lobbyRow(lobby))}::json) as x(name text, visibility text,
      "passcodeHash" text, status text, "hostPlayerId" uuid, "maxPlayers" smallint, "memberCount" smallint,
      "spectatorCount" smallint, settings jsonb, metadata jsonb, "privateData" jsonb, version int,
      "matchId" uuid, seed text, "startsAt" timestamptz, "startedAt" timestamptz, "endedAt" timestamptz,
      "closeReason" text, results json, "dueAt" timestamptz, "expiresAt" timestamptz,
      "updatedAt" timestamptz)
    where l.project_id = ${projectId} and l.id = ${id}`,
  );
};

/**
 * A change of one lobby in progress: its row is locked, and everything is applied to `lobby` in memory until
 * it is saved as the next version.
 */
export type LobbyEdit = {
  work: Work;
  lobby: LobbyState;
  /** Whether it was listed before the change. */
  wasListed: boolean;
  wasClosed: boolean;
  /** Occurrences, in order. */
  occurrences: Occurrence[];
  /** Members whose rows are to be written, including those who have left. */
  touched: Map<string, Member>;
  match: NewMatch | undefined;
  /** Whether there is a visible change: a new version. */
  isChanged: boolean;
};

export const turnOf = (work: Work, lobby: LobbyState): LobbyEdit => ({
  work,
  lobby,
  wasListed: isListed(lobby),
  wasClosed: lobby.status === "CLOSED",
  occurrences: [],
  touched: new Map(),
  match: undefined,
  isChanged: false,
});

/** Marks the lobby, and members, as visibly changed. */
export const touch = (edit: LobbyEdit, ...members: readonly Member[]): void => {
  edit.isChanged = true;
  for (const member of members) edit.touched.set(member.playerId, member);
};

/** Adds an occurrence for rooms. */
export const addOccurrence = (edit: LobbyEdit, name: LobbyOccurrence, data: Json): void =>
  void edit.occurrences.push({ name, data });

type AnnouncedEvent = Exclude<Extract<EventType, `lobby.${string}`>, "lobby.created" | "lobby.changed">;

/** Adds an event for rooms and integrators. */
export const announce = <T extends AnnouncedEvent>(edit: LobbyEdit, name: T, data: EventData<T>): void => {
  addOccurrence(edit, name, data);
  edit.work.emit(edit.lobby.projectId, name, data as never);
};

/**
 * Changes a lobby under its lock: at most one new version, saved and announced in the commit of `work`.
 * @throws DomainError NOT_FOUND, and what `run` throws
 */
export const changeLobby = async (
  work: Work,
  ref: LobbyRef,
  run: (edit: LobbyEdit) => Promise<void> | void,
): Promise<LobbyChange> => {
  const edit = await takeLobby(work, ref);
  if (!edit) throw notFound("lobby");
  await run(edit);
  return saveEdit(edit);
};

/**
 * Locks a lobby for a change; undefined when there is none, or with "skip" when another transaction has
 * locked it.
 */
export const takeLobby = async (work: Work, ref: LobbyRef, lock?: Lock): Promise<LobbyEdit | undefined> => {
  const lobby = await lockLobby(work, ref, lock);
  return lobby && turnOf(work, lobby);
};

/** Applies `run` and saves; undefined without a visible change. */
export const saveIfChanged = async (edit: LobbyEdit, run: () => void): Promise<LobbyChange | undefined> => {
  run();
  const change = await saveEdit(edit);
  return edit.isChanged ? change : undefined;
};

/** Writes the changes of a turn, and returns the lobby as its members see it. */
export const saveEdit = async (edit: LobbyEdit): Promise<LobbyChange> => {
  const { work, lobby, occurrences, isChanged } = edit;
  if (isChanged) {
    lobby.version += 1;
    lobby.updatedAt = work.now;
  }
  const due = dueAt(lobby);
  const isRescheduled = due?.getTime() !== lobby.dueAt?.getTime();
  lobby.dueAt = due;
  if (isChanged || isRescheduled || edit.touched.size > 0) await writeLobby(edit);
  if (isChanged) publishChange(edit);
  if (!edit.wasClosed && lobby.status === "CLOSED") await closeChannel(work, lobby);
  const people = await readPeople(work, [lobby]);
  return { lobby: showLobby(lobby, { people, isPrivate: true }), occurrences };
};

const publishChange = ({ work, lobby, occurrences, wasListed }: LobbyEdit): void => {
  const { id, projectId, version } = lobby;
  const shown = wasListed || isListed(lobby);
  work.emit(projectId, "lobby.changed", { lobbyId: id, version, occurrences, isListed: shown });
};

const closeChannel = async (work: Work, { projectId, id, channelId }: LobbyState): Promise<void> => {
  if (channelId !== null) await closeLobbyChannel(work, projectId, id);
};

/**
 * Changes a lobby by something about one of its members; undefined without a visible change. Does nothing for
 * a non-member.
 */
export const changeMember = async (
  work: Work,
  ref: LobbyRef,
  playerId: string,
  run: (edit: LobbyEdit, member: Member) => void,
): Promise<LobbyChange | undefined> => {
  const edit = await takeLobby(work, ref);
  const member = edit && memberOf(edit.lobby, playerId);
  return edit && member && saveIfChanged(edit, () => run(edit, member));
};
