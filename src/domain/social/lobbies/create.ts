import { randomInt } from "node:crypto";
import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import type { Passwords } from "../../accounts/auth/passwords.ts";
import { type CountingParts, countUse, LIMITS } from "../../accounts/rate-limits/limiter.ts";
import { conflict, DomainError, forbidden, invalid, notFound } from "../../kernel/errors.ts";
import type { LobbyChange } from "../../kernel/events/social-views.ts";
import type { Json } from "../../kernel/events/events.ts";
import { fnv1a, newId } from "../../kernel/ids.ts";
import { unanswered } from "../../kernel/statements.ts";
import { countNear, LOCK_SPACES, savepoint, type Transact, type Work } from "../../kernel/work.ts";
import { openLobbyChannel } from "../chat/channels.ts";
import { changeLobby, type LobbyEdit, playerRef, saveEdit, touch, turnOf } from "./edit.ts";
import {
  Data,
  DEFAULT_LOBBY_SETTINGS,
  LOBBY_DATA_MAX_BYTES,
  LOBBY_LIFE_MS,
  LOBBY_PLAYERS_MAX,
  MEMBER_DATA_MAX_BYTES,
  mergeSettings,
  Name,
  OPEN_LOBBIES_MAX,
  Passcode,
  PlayersMax,
  SettingsPatch,
  Visibility,
} from "./fields.ts";
import { lockSeatPlayer, refuseSeated, seatKeyOf, type SeatPlayer } from "./seat-player.ts";
import { seatMember } from "./membership.ts";
import { getLobby, type LobbyRef, type LobbyState, type Member, memberOf } from "./state.ts";

type PasscodeParts = CountingParts & { transact: Transact; passwords: Passwords };

type Attempt = { playerId: string; passcode?: string | undefined };

const invalidPasscode = () => forbidden("INVALID_PASSCODE", "the passcode is missing or wrong");

/**
 * Checks a passcode before the transaction that joins, because hashing is slow.
 * @returns the matching hash, for `joinLobby`, which checks that it is still the lobby's; null for a lobby
 * without one
 * @throws DomainError NOT_FOUND; FORBIDDEN INVALID_PASSCODE; RateLimited LOBBY_PASSCODE past 5 a minute
 */
export const checkPasscode = async (
  parts: PasscodeParts,
  ref: LobbyRef,
  { playerId, passcode }: Attempt,
): Promise<string | null> => {
  const { transact, passwords } = parts;
  const { passcodeHash } = await transact((work) => getLobby(work, ref));
  if (passcodeHash === null || passcode === undefined) return null;
  const key = `${ref.projectId}:${ref.lobbyId}:${playerId}`;
  const count = { bucket: LIMITS.lobbyPasscode, key };
  await countUse(parts, count, "LOBBY_PASSCODE", "Too many passcodes were tried");
  if (!(await passwords.verify(passcodeHash, passcode))) throw invalidPasscode();
  return passcodeHash;
};

/** Replaces a new passcode by its hash, before the transaction that sets it. */
export const hashPasscode = async <B extends { passcode?: string | null | undefined }>(
  passwords: Passwords,
  body: B,
): Promise<B> =>
  typeof body.passcode === "string" ? { ...body, passcode: await passwords.hash(body.passcode) } : body;

type Joining = {
  playerId: string;
  asSpectator?: boolean | undefined;
  data?: Json | undefined;
  /** Result of `checkPasscode`. */
  verifiedHash?: string | null | undefined;
  /** Whether the player was invited, and needs no passcode. */
  isInvited?: boolean;
};

/**
 * Gives a player a seat in a lobby, or a place as a spectator. A member keeps the existing one, and becomes
 * present again.
 * @throws DomainError NOT_FOUND; FORBIDDEN: PLAYER_BANNED, INVALID_PASSCODE; CONFLICT: LOBBY_NOT_OPEN,
 * LOBBY_FULL, ALREADY_IN_LOBBY, PLAYER_INACTIVE
 */
export const joinLobby = async (work: Work, ref: LobbyRef, joining: Joining): Promise<LobbyChange> => {
  const player = await lockSeatPlayer(work, ref.projectId, joining.playerId);
  return changeLobby(work, ref, (edit) => {
    const member = memberOf(edit.lobby, player.playerId);
    return member ? rejoin(edit, member, joining) : enter(edit, player, joining);
  });
};

const rejoin = (edit: LobbyEdit, member: Member, { asSpectator = false, data }: Joining): void => {
  if (asSpectator !== (member.role === "SPECTATOR"))
    throw conflict("ALREADY_IN_LOBBY", "the player is already in the lobby in another role");
  if (data !== undefined) touch(edit, Object.assign(member, { data }));
  if (member.status !== "DISCONNECTED") return;
  const status = member.isReady ? "READY" : "JOINED";
  touch(edit, Object.assign(member, { status, presence: "API", graceUntil: null }));
};

const enter = async (edit: LobbyEdit, player: SeatPlayer, joining: Joining): Promise<void> => {
  const { lobby } = edit;
  await refuseBanned(edit.work, lobby, player.playerId);
  checkHash(lobby, joining);
  await seatPlayer(edit, player, joining);
};

/** @throws DomainError as joinLobby, except for bans and passcodes of the lobby */
const seatPlayer = async (
  edit: LobbyEdit,
  player: SeatPlayer,
  { asSpectator = false, data = {} }: Pick<Joining, "asSpectator" | "data">,
): Promise<void> => {
  const { lobby, work } = edit;
  const { playerId, externalUserId, displayName } = player;
  const seatKey = seatKeyOf(player, lobby.mode, lobby.id);
  const role = asSpectator ? "SPECTATOR" : "PLAYER";
  const isLate = lobby.status === "IN_GAME" && role === "PLAYER";
  if (role === "PLAYER") await refuseSeated(work, lobby.projectId, { playerId, seatKey });
  seatMember(edit, { playerId, externalUserId, displayName, seatKey, role, data });
  if (isLate) await addToMatch(work, lobby, playerId);
};

/** Checks the lobby's own bans. @throws DomainError FORBIDDEN PLAYER_BANNED */
const refuseBanned = async ({ db }: Work, { projectId, id }: LobbyState, playerId: string): Promise<void> => {
  const { rows } = await sql`
    select from lobby_bans
    where project_id = ${projectId} and lobby_id = ${id} and player_id = ${playerId}`.execute(db);
  if (rows.length > 0) throw forbidden("PLAYER_BANNED", "the player is banned from the lobby");
};

/** Checks that the passcode verified before the transaction is still the lobby's. */
const checkHash = ({ passcodeHash, status }: LobbyState, { verifiedHash, isInvited }: Joining): void => {
  if (status === "CLOSED" || passcodeHash === null || isInvited === true) return;
  if (verifiedHash !== passcodeHash) throw invalidPasscode();
};

/** Adds a late player to the match. */
const addToMatch = async ({ db }: Work, { projectId, matchId }: LobbyState, playerId: string) => {
  const added = JSON.stringify([playerId]);
  await sql`
    update lobby_matches set players = players || ${added}::jsonb
    where project_id = ${projectId} and id = ${matchId} and not players @> ${added}::jsonb`.execute(db);
};

export const Mode = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/, "must be 1 to 64 of A-Z a-z 0-9 _ . -")
  .meta({ description: "The game mode; a player has one lobby of a mode", example: "duel" });

export const NewLobby = z.object({
  name: Name.optional().meta({ description: "Default: the mode" }),
  mode: Mode,
  minPlayers: z.int().min(1).max(LOBBY_PLAYERS_MAX).default(2),
  maxPlayers: PlayersMax,
  visibility: Visibility.default("PUBLIC"),
  passcode: Passcode.optional(),
  settings: SettingsPatch.optional(),
  metadata: Data(LOBBY_DATA_MAX_BYTES).optional(),
  privateData: Data(LOBBY_DATA_MAX_BYTES).optional(),
});
export type NewLobby = z.output<typeof NewLobby>;

/** Owner of the lobby: a player, or without one the server. */
type Creation = { hostPlayerId?: string | undefined; via: LobbyState["createdVia"] };

/** Letters and digits that cannot be confused. */
const CODE_ALPHABET = "ABCDEFGHJKMNPQRSTVWXYZ23456789";
const CODE_LENGTH = 6;
/** Maximum number of attempts to find a free code; with 10,000 of 729 million in use, one is rarely taken. */
const CODE_TRIES = 8;

const newCode = (): string =>
  Array.from({ length: CODE_LENGTH }, () => CODE_ALPHABET[randomInt(CODE_ALPHABET.length)]).join("");

/** @throws DomainError VALIDATION_ERROR */
export const checkSizes = ({
  minPlayers,
  maxPlayers,
  settings: { teams },
}: Pick<LobbyState, "minPlayers" | "maxPlayers" | "settings">): void => {
  if (maxPlayers < minPlayers) throw invalid("maxPlayers", `must be at least minPlayers, ${minPlayers}`);
  if (teams && maxPlayers > teams.count * teams.size)
    throw invalid("settings.teams", `hold only ${teams.count * teams.size} of ${maxPlayers} players`);
};

/**
 * Opens a lobby; its host takes the first seat.
 * @param input a passcode in it is hashed already, see `hashPasscode`
 * @throws DomainError VALIDATION_ERROR; CONFLICT: ALREADY_IN_LOBBY, LOBBY_LIMIT, PLAYER_INACTIVE; FORBIDDEN
 * PLAYER_BANNED
 */
export const createLobby = async (
  work: Work,
  projectId: string,
  input: NewLobby,
  { hostPlayerId, via }: Creation,
): Promise<LobbyChange> => {
  const host = hostPlayerId === undefined ? undefined : await lockSeatPlayer(work, projectId, hostPlayerId);
  const lobby = newLobby(work, projectId, input);
  Object.assign(lobby, { createdVia: via, hostPlayerId: host?.playerId ?? null });
  checkSizes(lobby);
  await refuseTooMany(work, projectId);
  lobby.channelId = await openLobbyChannel(work, projectId, lobby.id, lobby.name);
  await insertLobby(work, lobby);
  const edit = turnOf(work, lobby);
  touch(edit);
  emitCreated(work, lobby, host);
  if (host) await seatPlayer(edit, host, {});
  return saveEdit(edit);
};

const newLobby = ({ now }: Work, projectId: string, input: NewLobby): LobbyState => ({
  projectId,
  id: newId(),
  code: newCode(),
  name: input.name ?? input.mode,
  mode: input.mode,
  visibility: input.visibility,
  passcodeHash: input.passcode ?? null,
  status: "OPEN",
  hostPlayerId: null,
  minPlayers: input.minPlayers,
  maxPlayers: input.maxPlayers,
  settings: mergeSettings(DEFAULT_LOBBY_SETTINGS, input.settings),
  metadata: input.metadata ?? {},
  privateData: input.privateData ?? {},
  // Incremented when it is saved, with the host in it.
  version: 0,
  channelId: null,
  matchId: null,
  seed: null,
  startsAt: null,
  startedAt: null,
  endedAt: null,
  closeReason: null,
  results: null,
  createdVia: "API",
  dueAt: null,
  expiresAt: new Date(now.getTime() + LOBBY_LIFE_MS),
  createdAt: now,
  updatedAt: now,
  members: [],
});

const refuseTooMany = async (work: Work, projectId: string): Promise<void> => {
  const limit = { projectId, limited: "lobbies", max: OPEN_LOBBIES_MAX } as const;
  // Counted by the index of open lobbies' codes.
  const open = sql`lobbies where project_id = ${projectId} and status <> 'CLOSED'`;
  if ((await countNear(work, limit, open)) >= OPEN_LOBBIES_MAX)
    throw conflict("LOBBY_LIMIT", `a project has at most ${OPEN_LOBBIES_MAX} lobbies that are not closed`);
};

/** Inserts the row with a code that no open lobby has; the rest is written when the turn is saved. */
const insertLobby = async ({ db }: Work, lobby: LobbyState): Promise<void> => {
  for (let i = 0; i < CODE_TRIES; i++) {
    const { rows } = await sql`
      insert into lobbies (project_id, id, code, name, mode, visibility, status, min_players, max_players,
        settings, version, channel_id, created_via, expires_at, created_at, updated_at)
      values (${lobby.projectId}, ${lobby.id}, ${lobby.code}, ${lobby.name}, ${lobby.mode},
        ${lobby.visibility}, 'OPEN', ${lobby.minPlayers}, ${lobby.maxPlayers}, '{}', 0, ${lobby.channelId},
        ${lobby.createdVia}, ${lobby.expiresAt.toISOString()}::timestamptz,
        ${lobby.createdAt.toISOString()}::timestamptz, ${lobby.createdAt.toISOString()}::timestamptz)
      on conflict (project_id, code) where status <> 'CLOSED' do nothing returning 1`.execute(db);
    if (rows.length > 0) return;
    lobby.code = newCode();
  }
  throw new DomainError("SERVICE_UNAVAILABLE", "No code is free; try again");
};

const emitCreated = (work: Work, lobby: LobbyState, host: SeatPlayer | undefined): void =>
  work.emit(lobby.projectId, "lobby.created", {
    lobbyId: lobby.id,
    code: lobby.code,
    name: lobby.name,
    mode: lobby.mode,
    visibility: lobby.visibility,
    hasPasscode: lobby.passcodeHash !== null,
    host: host ? playerRef(host) : null,
    minPlayers: lobby.minPlayers,
    maxPlayers: lobby.maxPlayers,
    metadata: lobby.metadata,
    createdVia: lobby.createdVia,
    createdAt: lobby.createdAt.toISOString(),
  });

export const Quickplay = z.object({
  mode: Mode,
  metadata: Data(LOBBY_DATA_MAX_BYTES).optional().meta({
    description: "The lobby's metadata must contain it; a lobby that is made has it",
  }),
  data: Data(MEMBER_DATA_MAX_BYTES).optional(),
  partySize: z.int().min(1).max(LOBBY_PLAYERS_MAX).default(1).meta({
    description: "Seats that must be free. Only the caller takes one; the party joins by id",
  }),
  createIfNone: z.boolean().default(true),
  minPlayers: z.int().min(1).max(LOBBY_PLAYERS_MAX).default(2),
  maxPlayers: PlayersMax.default(4),
  settings: SettingsPatch.optional(),
  near: z.never("near is not available yet").optional(),
  maxWaitMs: z.never("maxWaitMs is not available yet: ask again").optional(),
});
export type Quickplay = z.output<typeof Quickplay>;

/** Maximum number of searches that wait for others before a lobby is created anyway. */
const LOOKS_MAX = 20;

type Search = { projectId: string; player: SeatPlayer } & Quickplay;

/** The fullest public lobby with enough free seats for a party, the oldest of equals. */
const candidates = ({ projectId, player, mode, metadata, partySize }: Search): RawBuilder<unknown> => sql`
  from lobbies l
  where l.project_id = ${projectId} and l.mode = ${mode} and l.status = 'OPEN' and l.visibility = 'PUBLIC'
    and l.passcode_hash is null and l.member_count < l.max_players
    and l.member_count + ${partySize}::int <= l.max_players
    and l.metadata @> ${JSON.stringify(metadata ?? {})}::jsonb
    and not exists (select from lobby_bans b
      where b.project_id = l.project_id and b.lobby_id = l.id and b.player_id = ${player.playerId})
    and not exists (select from lobby_members m
      where m.project_id = l.project_id and m.lobby_id = l.id and m.player_id = ${player.playerId} and m.is_active)
  order by l.member_count desc, l.created_at, l.id limit 1`;

const findFree = async ({ db }: Work, search: Search): Promise<string | undefined> => {
  const { rows } = await sql<{ id: string }>`
    select l.id ${candidates(search)} for update of l skip locked`.execute(db);
  return rows[0]?.id;
};

class NoneFree extends Error {}

/**
 * Looks for a lobby that no other transaction has locked. A row that was locked and turned out to be full
 * stays locked, which the rollback to the savepoint undoes: nothing may be locked while waiting for the
 * mode's lock.
 */
const findUnheld = async (work: Work, search: Search): Promise<string | undefined> => {
  try {
    return await savepoint(work, async () => {
      const found = await findFree(work, search);
      if (found === undefined) throw new NoneFree();
      return found;
    });
  } catch (error) {
    if (error instanceof NoneFree) return undefined;
    throw error;
  }
};

/**
 * Under the mode's lock: waits for the transaction that has locked a lobby, and searches again if it is full
 * then.
 */
const findWaiting = async (work: Work, search: Search): Promise<string | undefined> => {
  for (let i = 0; i < LOOKS_MAX; i++) {
    const found = await sql<{ id: string }>`
      select l.id ${candidates(search)} for update of l`.execute(work.db);
    if (found.rows[0]) return found.rows[0].id;
    const seen = await sql`select l.id ${candidates(search)}`.execute(work.db);
    if (seen.rows.length === 0) return undefined;
  }
  return undefined;
};

const lockMode = async ({ db }: Work, { projectId, mode }: Search): Promise<void> => {
  const key = fnv1a(`${projectId}\0${mode}`) | 0;
  await unanswered(
    db,
    sql`
    select pg_advisory_xact_lock(${LOCK_SPACES.QUICKPLAY}::int, ${key}::int)`,
  );
};

const findLobby = async (work: Work, search: Search): Promise<string | undefined> => {
  const unheld = await findUnheld(work, search);
  if (unheld !== undefined || !search.createIfNone) return unheld;
  await lockMode(work, search);
  return findWaiting(work, search);
};

type Quickplayed = LobbyChange & { created: boolean };

/**
 * Seats a player in the fullest lobby of a mode with a free seat, or in a new one.
 * @throws DomainError VALIDATION_ERROR; NOT_FOUND when there is none and none is to be created; FORBIDDEN
 * PLAYER_BANNED; CONFLICT: ALREADY_IN_LOBBY, LOBBY_LIMIT, PLAYER_INACTIVE
 */
export const quickplay = async (
  work: Work,
  projectId: string,
  playerId: string,
  wish: Quickplay,
): Promise<Quickplayed> => {
  if (wish.createIfNone && wish.partySize > wish.maxPlayers)
    throw invalid("partySize", `a lobby of ${wish.maxPlayers} players has no room for the party`);
  const player = await lockSeatPlayer(work, projectId, playerId);
  const { mode, minPlayers, maxPlayers, metadata, settings, data } = wish;
  if (player.onePerMode) await refuseSeated(work, projectId, { playerId: player.playerId, seatKey: mode });
  const lobbyId = await findLobby(work, { ...wish, projectId, player });
  if (lobbyId !== undefined) {
    const change = await changeLobby(work, { projectId, lobbyId }, (edit) =>
      seatPlayer(edit, player, { data }),
    );
    return { ...change, created: false };
  }
  if (!wish.createIfNone) throw notFound("a lobby with room");
  const made = await createLobby(
    work,
    projectId,
    { mode, minPlayers, maxPlayers, metadata, settings, visibility: "PUBLIC" },
    { hostPlayerId: player.playerId, via: "QUICKPLAY" },
  );
  return { ...made, created: true };
};
