import { type RawBuilder, sql } from "kysely";
import { notFound } from "../../kernel/errors.ts";
import type {
  LobbyCloseReason,
  LobbyResult,
  LobbySettings,
  LobbyStatus,
  LobbyVisibility,
  MemberStatus,
} from "../../kernel/events/social-views.ts";
import type { Json } from "../../kernel/events/events.ts";
import { kept, unansweredKept } from "../../kernel/statements.ts";
import type { Work } from "../../kernel/work.ts";

export type LobbyRef = { projectId: string; lobbyId: string };

/** A stored result: the player's identity is read when it is shown. */
export type StoredResult = Omit<LobbyResult, "externalUserId">;

/** A player with a seat, or a spectator. */
export type Member = {
  playerId: string;
  externalUserId: string;
  displayName: string | null;
  /** Scope in which a player may have one seat: the mode, or this lobby. */
  seatKey: string;
  /** The rating by which teams are balanced. */
  rating: number;
  status: MemberStatus;
  role: "PLAYER" | "SPECTATOR";
  /** Kept while the member is away. */
  isReady: boolean;
  team: number | null;
  slot: number | null;
  data: Json;
  /** How the lobby detects the member's presence: by heartbeats, if any, or by a socket. */
  presence: "API" | "SOCKET";
  /** When the member counts as away, or when an absent one has left. */
  graceUntil: Date | null;
  joinedAt: Date;
};

/** A lobby with its active members, by `joinedAt`. */
export type LobbyState = {
  projectId: string;
  id: string;
  code: string;
  name: string;
  mode: string;
  visibility: LobbyVisibility;
  passcodeHash: string | null;
  status: LobbyStatus;
  hostPlayerId: string | null;
  minPlayers: number;
  maxPlayers: number;
  settings: LobbySettings;
  metadata: Json;
  privateData: Json;
  version: number;
  channelId: string | null;
  matchId: string | null;
  seed: string | null;
  startsAt: Date | null;
  startedAt: Date | null;
  endedAt: Date | null;
  closeReason: LobbyCloseReason | null;
  results: StoredResult[] | null;
  createdVia: "API" | "PLAYER" | "QUICKPLAY";
  dueAt: Date | null;
  expiresAt: Date;
  createdAt: Date;
  updatedAt: Date;
  members: Member[];
};

/** Statuses of active members. */
const ACTIVE = sql`('JOINED', 'READY', 'DISCONNECTED')`;

const COLUMNS = sql`l.project_id as "projectId", l.id, l.code, l.name, l.mode, l.visibility,
  l.passcode_hash as "passcodeHash", l.status, l.host_player_id as "hostPlayerId",
  l.min_players as "minPlayers", l.max_players as "maxPlayers", l.settings, l.metadata,
  l.private_data as "privateData", l.version, l.channel_id as "channelId", l.match_id as "matchId", l.seed,
  l.starts_at as "startsAt", l.started_at as "startedAt", l.ended_at as "endedAt",
  l.close_reason as "closeReason", l.results, l.created_via as "createdVia", l.due_at as "dueAt",
  l.expires_at as "expiresAt", l.created_at as "createdAt", l.updated_at as "updatedAt"`;

type MemberRow = Omit<Member, "graceUntil" | "joinedAt"> & { graceUntil: string | null; joinedAt: string };
type Row = Omit<LobbyState, "members"> & { members: MemberRow[] };

const lobbyOf = ({ isLocked: _isLocked, members, ...row }: Row & { isLocked?: unknown }): LobbyState => ({
  ...row,
  members: members.map(memberIn),
});

const memberIn = ({ graceUntil, joinedAt, ...row }: MemberRow): Member => ({
  ...row,
  graceUntil: graceUntil === null ? null : new Date(graceUntil),
  joinedAt: new Date(joinedAt),
});

/** Whether rows locked by other transactions are waited for or skipped. */
export type Lock = "wait" | "skip";

const ID = sql.lit("laurel.locked_lobby");

/**
 * Locks a lobby and reads it. The members are read by a later statement, so that they match the locked row.
 * @returns undefined when there is none, or it was skipped
 */
export const lockLobby = async (
  work: Work,
  ref: LobbyRef,
  lock: Lock = "wait",
): Promise<LobbyState | undefined> => {
  const skip = lock === "skip" ? sql`skip locked` : sql``;
  await unansweredKept(
    work.db,
    sql`
    select set_config(${ID}, id::text, true) from lobbies
    where project_id = ${ref.projectId} and id = ${ref.lobbyId} for update ${skip}`,
  );
  const found = await readOne(work, ref);
  if (!found || found.isLocked === true) return found && lobbyOf(found);
  // One that was made between the two statements could not be locked.
  return lock === "skip" ? undefined : lockLobby(work, ref);
};

/** Reads a lobby without a lock. @throws DomainError NOT_FOUND */
export const getLobby = async (work: Work, ref: LobbyRef): Promise<LobbyState> => {
  const found = await readOne(work, ref);
  if (!found) throw notFound("lobby");
  return lobbyOf(found);
};

/** Active members of the lobby `l`, with the rating by which its teams are balanced. */
const MEMBERS = sql`
  (select coalesce(json_agg(json_build_object('playerId', m.player_id, 'seatKey', m.mode,
      'externalUserId', p.external_user_id, 'displayName', p.display_name, 'status', m.status,
      'role', m.role, 'isReady', m.is_ready, 'team', m.team, 'slot', m.slot, 'data', m.data,
      'presence', m.presence, 'graceUntil', m.grace_until, 'joinedAt', m.joined_at,
      'rating', case when jsonb_typeof(p.attributes -> (l.settings #>> '{teams,balanceBy}')) = 'number'
        then (p.attributes ->> (l.settings #>> '{teams,balanceBy}'))::float8 else 0 end)
      order by m.joined_at, m.player_id), '[]')
    from lobby_members m join players p on p.project_id = m.project_id and p.id = m.player_id
    where l.status <> 'CLOSED' and m.project_id = l.project_id and m.lobby_id = l.id
      and m.status in ${ACTIVE})`;

/** Reads a lobby with its members; `isLocked` by `lockLobby`. */
const readOne = async (
  { db }: Work,
  { projectId, lobbyId }: LobbyRef,
): Promise<(Row & { isLocked: boolean | null }) | undefined> => {
  const { rows } = await kept(
    db,
    sql<Row & { isLocked: boolean | null }>`
    select ${COLUMNS}, ${MEMBERS} as members,
      current_setting(${ID}, true) = l.id::text as "isLocked"
    from lobbies l where l.project_id = ${projectId} and l.id = ${lobbyId}`,
  );
  return rows[0];
};

/** Reads lobbies, in the order of `rest`, with their members. */
export const readLobbies = async ({ db }: Work, rest: RawBuilder<unknown>): Promise<LobbyState[]> => {
  const { rows } = await sql<Row>`
    select ${COLUMNS}, ${MEMBERS} as members from lobbies l ${rest}`.execute(db);
  return rows.map(lobbyOf);
};

/** Returns the members with a seat. */
export const playersOf = ({ members }: LobbyState): Member[] =>
  members.filter(({ role }) => role === "PLAYER");

export const memberOf = ({ members }: LobbyState, playerId: string): Member | undefined =>
  members.find((member) => member.playerId === playerId);

/** Finds a member by id, or by `ext:` and the integrator's id. */
export const findMember = ({ members }: LobbyState, ref: string): Member | undefined =>
  members.find(({ playerId, externalUserId }) => ref === playerId || ref === `ext:${externalUserId}`);

/** Whether players outside it find it in the list. */
export const isListed = ({ status, visibility }: Pick<LobbyState, "status" | "visibility">): boolean =>
  status === "OPEN" && visibility === "PUBLIC";

const secondsAfter = (time: Date, seconds: number): number => time.getTime() + seconds * 1_000;

/** Returns when an unchanged lobby is closed, or a game that nobody ends; ms. */
const endMs = ({ status, settings, updatedAt, startedAt, expiresAt }: LobbyState): number => {
  if (status === "IN_GAME") return secondsAfter(startedAt!, settings.maxGameSeconds);
  return Math.min(secondsAfter(updatedAt, settings.idleSeconds), expiresAt.getTime());
};

export const isOver = (lobby: LobbyState, now: Date): boolean => endMs(lobby) <= now.getTime();

/** Returns the time of a lobby's next time-based change; null for a closed one. */
export const dueAt = (lobby: LobbyState): Date | null => {
  if (lobby.status === "CLOSED") return null;
  const graces = lobby.members.flatMap(({ graceUntil }) => (graceUntil ? [graceUntil.getTime()] : []));
  const end = lobby.status === "STARTING" ? lobby.startsAt!.getTime() : endMs(lobby);
  return new Date(Math.min(end, ...graces));
};

/** A lobby, and its members who were connected by socket according to their last report. */
export type SocketMembers = LobbyRef & { playerIds: string[] };

/** Number of lobbies per page. */
export const SOCKET_LOBBIES_MAX = 10_000;
/** Members of a lobby that has changed since then may be reconnecting. */
const QUIET_MS = 10_000;

/**
 * Returns lobbies of all projects that have not changed for a moment and have members connected by socket: a
 * page in the order of ids after `after`.
 */
export const findSocketMembers = async ({ db, now }: Work, after: string): Promise<SocketMembers[]> => {
  const before = new Date(now.getTime() - QUIET_MS).toISOString();
  const { rows } = await sql<SocketMembers>`
    select m.project_id as "projectId", m.lobby_id as "lobbyId", json_agg(m.player_id) as "playerIds"
    from lobby_members m
    join lobbies l on l.project_id = m.project_id and l.id = m.lobby_id
    where m.status in ('JOINED', 'READY') and m.presence = 'SOCKET' and m.lobby_id > ${after}::uuid
      and l.updated_at < ${before}::timestamptz
    group by m.project_id, m.lobby_id
    order by m.lobby_id limit ${SOCKET_LOBBIES_MAX}`.execute(db);
  return rows;
};
