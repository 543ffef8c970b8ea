import { sql } from "kysely";
import { conflict, forbidden, notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import type { Work } from "../../kernel/work.ts";
import { seatMember } from "./membership.ts";
import { invalidPasscode } from "./passcodes.ts";
import { lockSeatPlayer, refuseSeated, type SeatPlayer, seatKeyOf } from "./seat-player.ts";
import { type LobbyRef, type LobbyState, type Member, memberOf } from "./state.ts";
import { type LobbyEdit, saveEdit, takeLobby, touch } from "./edit.ts";
import type { LobbyChange } from "../../kernel/events/lobby-views.ts";

export type Joining = {
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
  const edit = await takeLobby(work, ref);
  if (!edit) throw notFound("lobby");
  const member = memberOf(edit.lobby, player.playerId);
  if (member) rejoin(edit, member, joining);
  else await enter(edit, player, joining);
  return saveEdit(edit);
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
export const seatPlayer = async (
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
