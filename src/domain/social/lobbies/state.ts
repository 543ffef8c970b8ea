import { type RawBuilder, sql } from "kysely";
import { notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { Work } from "../../kernel/work.ts";
import type {
  LobbyCloseReason,
  LobbyResult,
  LobbySettings,
  LobbyStatus,
  LobbyVisibility,
  MemberStatus,
} from "../../kernel/events/lobby-views.ts";

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

const TIMES = ["startsAt", "startedAt", "endedAt", "dueAt", "expiresAt", "createdAt", "updatedAt"] as const;

type Row = Omit<LobbyState, "members">;

const asDate = (value: unknown): Date | null => (value === null ? null : new Date(value as string));

const lobbyOf = (row: Row): LobbyState => {
  const times = Object.fromEntries(TIMES.map((name) => [name, asDate(row[name])]));
  return { ...row, ...times, members: [] };
};

/** Reads lobbies, in the order of `rest`, with their members: two statements. */
export const readLobbies = async (work: Work, rest: RawBuilder<unknown>): Promise<LobbyState[]> => {
  const { rows } = await sql<Row>`select ${COLUMNS} from lobbies l ${rest}`.execute(work.db);
  const lobbies = rows.map(lobbyOf);
  await readMembers(work, lobbies);
  return lobbies;
};

/** Whether rows locked by other transactions are waited for or skipped. */
export type Lock = "wait" | "skip";

const LOCKS: Readonly<Record<Lock, RawBuilder<unknown>>> = {
  wait: sql`for update of l`,
  skip: sql`for update of l skip locked`,
};

/**
 * Locks a lobby and reads it. The members are read by a later statement, so that they match the locked row.
 * @returns undefined when there is none, or it was skipped
 */
export const lockLobby = async (
  work: Work,
  { projectId, lobbyId }: LobbyRef,
  lock: Lock = "wait",
): Promise<LobbyState | undefined> => {
  const where = sql`where l.project_id = ${projectId} and l.id = ${lobbyId}`;
  return (await readLobbies(work, sql`${where} ${LOCKS[lock]}`))[0];
};

/** Reads a lobby without a lock. @throws DomainError NOT_FOUND */
export const getLobby = async (work: Work, { projectId, lobbyId }: LobbyRef): Promise<LobbyState> => {
  const [lobby] = await readLobbies(work, sql`where l.project_id = ${projectId} and l.id = ${lobbyId}`);
  if (!lobby) throw notFound("lobby");
  return lobby;
};

type MemberRow = Omit<Member, "graceUntil" | "joinedAt"> & {
  lobbyId: string;
  graceUntil: Date | string | null;
  joinedAt: Date | string;
};

const readMembers = async ({ db }: Work, lobbies: readonly LobbyState[]): Promise<void> => {
  const open = lobbies.filter(({ status }) => status !== "CLOSED");
  if (open.length === 0) return;
  const keys = open.map(({ id, settings: { teams } }) => ({ l: id, k: teams?.balanceBy ?? null }));
  const { rows } = await sql<MemberRow>`
    select m.lobby_id as "lobbyId", m.player_id as "playerId", m.mode as "seatKey",
      p.external_user_id as "externalUserId",
      p.display_name as "displayName", m.status, m.role, m.is_ready as "isReady", m.team, m.slot, m.data,
      m.presence, m.grace_until as "graceUntil", m.joined_at as "joinedAt",
      case when jsonb_typeof(p.attributes -> x.k) = 'number' then (p.attributes ->> x.k)::float8 else 0 end
        as rating
    from json_to_recordset(${JSON.stringify(keys)}::json) as x(l uuid, k text)
    join lobby_members m on m.project_id = ${open[0]!.projectId} and m.lobby_id = x.l
      and m.status in ${ACTIVE}
    join players p on p.project_id = m.project_id and p.id = m.player_id
    order by m.joined_at, m.player_id`.execute(db);
  const byId = new Map(open.map((lobby) => [lobby.id, lobby]));
  for (const { lobbyId, graceUntil, joinedAt, ...row } of rows)
    byId.get(lobbyId)!.members.push({
      ...row,
      graceUntil: asDate(graceUntil),
      joinedAt: new Date(joinedAt),
    });
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
