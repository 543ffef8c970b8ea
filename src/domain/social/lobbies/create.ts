import { randomInt } from "node:crypto";
import { sql } from "kysely";
import { z } from "zod";
import { openLobbyChannel } from "../chat/channels.ts";
import { conflict, DomainError, invalid } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { countNear } from "../../kernel/room-lock.ts";
import type { Work } from "../../kernel/work.ts";
import { Data, Name, Passcode, PlayersMax, Visibility } from "./fields.ts";
import { LOBBY_DATA_MAX_BYTES, LOBBY_LIFE_MS, LOBBY_PLAYERS_MAX, OPEN_LOBBIES_MAX } from "./limits.ts";
import { lockSeatPlayer, type SeatPlayer } from "./seat-player.ts";
import { DEFAULT_LOBBY_SETTINGS, mergeSettings, SettingsPatch } from "./settings.ts";
import { playerRef } from "./show.ts";
import type { LobbyState } from "./state.ts";
import { seatPlayer } from "./join.ts";
import { saveEdit, touch, turnOf } from "./edit.ts";
import type { LobbyChange } from "../../kernel/events/lobby-views.ts";

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
export type Creation = { hostPlayerId?: string | undefined; via: LobbyState["createdVia"] };

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

/** Counts by the index of open lobbies' codes. */
const countOpen = async ({ db }: Work, projectId: string): Promise<number> => {
  const { rows } = await sql<{ n: string | number }>`
    select count(*) as n from (
      select from lobbies where project_id = ${projectId} and status <> 'CLOSED' limit ${OPEN_LOBBIES_MAX}
    ) as lobby`.execute(db);
  return Number(rows[0]!.n);
};

const refuseTooMany = async (work: Work, projectId: string): Promise<void> => {
  const limit = { projectId, limited: "lobbies", max: OPEN_LOBBIES_MAX } as const;
  if ((await countNear(work, limit, () => countOpen(work, projectId))) >= OPEN_LOBBIES_MAX)
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
