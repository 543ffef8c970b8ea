import { conflict } from "../../kernel/errors.ts";
import type { Json, PlayerRef } from "../../kernel/events/events.ts";
import { closeLobby } from "./close.ts";
import { migrateHost } from "./host.ts";
import { HEARTBEAT_MS, SPECTATORS_MAX } from "./limits.ts";
import { showMember } from "./show.ts";
import { type LobbyState, type Member, playersOf } from "./state.ts";
import { autoStart, recheckCountdown } from "./start.ts";
import { type LobbyTurn, tell, touch } from "./turn.ts";

/** A player taking a seat, and how. */
export type Seat = PlayerRef & {
  displayName: string | null;
  seatKey: string;
  role: "PLAYER" | "SPECTATOR";
  data: Json;
};

const notOpen = ({ status }: LobbyState) => conflict("LOBBY_NOT_OPEN", `the lobby is ${status}`);

const checkRoom = (lobby: LobbyState, role: Seat["role"]): void => {
  const { status, settings, maxPlayers, members } = lobby;
  if (status === "CLOSED") throw notOpen(lobby);
  const players = playersOf(lobby).length;
  if (role === "SPECTATOR") {
    if (!settings.allowSpectators) throw conflict("LOBBY_NOT_OPEN", "the lobby takes no spectators");
    if (members.length - players >= SPECTATORS_MAX) throw conflict("LOBBY_FULL", "too many spectators");
    return;
  }
  const isLate = status === "IN_GAME" && settings.allowLateJoin;
  if (status !== "OPEN" && !isLate) throw notOpen(lobby);
  if (players >= maxPlayers) throw conflict("LOBBY_FULL", `the lobby has ${maxPlayers} players`);
};

/** Returns the lowest free number from 1. */
const lowestFree = (taken: readonly (number | null)[]): number => {
  let slot = 1;
  while (taken.includes(slot)) slot++;
  return slot;
};

/** Returns the lowest free slot of a team, or of a lobby without teams. */
export const freeSlot = (lobby: LobbyState, team: number | null): number =>
  lowestFree(
    playersOf(lobby)
      .filter((player) => player.team === team)
      .map(({ slot }) => slot),
  );

/** Assigns a late player to the smallest team; before a game teams are chosen or assigned. */
const placeOf = (lobby: LobbyState): { team: number | null; slot: number | null } => {
  const { teams } = lobby.settings;
  if (!teams) return { team: null, slot: freeSlot(lobby, null) };
  if (lobby.status !== "IN_GAME") return { team: null, slot: null };
  const sizes = Array.from(
    { length: teams.count },
    (_, i) => playersOf(lobby).filter(({ team }) => team === i + 1).length,
  );
  const team = sizes.indexOf(Math.min(...sizes)) + 1;
  return { team, slot: freeSlot(lobby, team) };
};

/**
 * Gives a player a seat, or a place as a spectator.
 * @throws DomainError CONFLICT: LOBBY_NOT_OPEN, LOBBY_FULL
 */
export const seatMember = (turn: LobbyTurn, { role, ...seat }: Seat): Member => {
  const { lobby, work } = turn;
  checkRoom(lobby, role);
  const place = role === "PLAYER" ? placeOf(lobby) : { team: null, slot: null };
  const member: Member = {
    ...seat,
    ...place,
    role,
    rating: 0,
    status: "JOINED",
    isReady: false,
    presence: "API",
    graceUntil: null,
    joinedAt: work.now,
  };
  lobby.members.push(member);
  touch(turn, member);
  const memberCount = playersOf(lobby).length;
  tell(turn, "lobby.member_joined", { lobbyId: lobby.id, member: showMember(lobby, member), memberCount });
  if (role === "PLAYER") autoStart(turn);
  return member;
};

export type LeaveReason = "LEFT" | "KICKED" | "TIMEOUT";

/** Removes a member, and handles the consequences: another host, no countdown, the end of an empty lobby. */
export const removeMember = (turn: LobbyTurn, member: Member, reason: LeaveReason): void => {
  const { lobby } = turn;
  lobby.members = lobby.members.filter((other) => other !== member);
  const status = reason === "KICKED" ? "KICKED" : "LEFT";
  touch(turn, Object.assign(member, { status, graceUntil: null }));
  const { playerId } = member;
  const memberCount = playersOf(lobby).length;
  tell(turn, "lobby.member_left", { lobbyId: lobby.id, playerId, reason, memberCount });
  if (member.role === "SPECTATOR") return;
  if (memberCount === 0) return closeLobby(turn, "EMPTY");
  if (lobby.hostPlayerId === playerId) migrateHost(turn);
  recheckCountdown(turn, "MEMBER_LEFT");
};

/** Marks a member as away: the seat is kept for the grace period of the lobby's state. */
export const setAway = (turn: LobbyTurn, member: Member): void => {
  const { settings, status } = turn.lobby;
  const seconds = status === "IN_GAME" ? settings.inGameGraceSeconds : settings.graceSeconds;
  const graceUntil = new Date(turn.work.now.getTime() + seconds * 1_000);
  touch(turn, Object.assign(member, { status: "DISCONNECTED", graceUntil }));
};

/** Marks a member as present, by a socket or by a heartbeat. */
export const setPresent = (turn: LobbyTurn, member: Member, presence: Member["presence"]): void => {
  const wasAway = member.status === "DISCONNECTED";
  const isBeat = presence === "API";
  const graceUntil = isBeat ? new Date(turn.work.now.getTime() + HEARTBEAT_MS) : null;
  Object.assign(member, { presence, graceUntil });
  turn.touched.set(member.playerId, member);
  if (!wasAway) return;
  touch(turn, Object.assign(member, { status: member.isReady ? "READY" : "JOINED" }));
};

export const setReady = (turn: LobbyTurn, member: Member, isReady: boolean): void => {
  if (member.isReady === isReady) return;
  member.isReady = isReady;
  if (member.status !== "DISCONNECTED") member.status = isReady ? "READY" : "JOINED";
  touch(turn, member);
  if (isReady) autoStart(turn);
  else recheckCountdown(turn, "UNREADY");
};
