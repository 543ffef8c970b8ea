import { conflict } from "../../kernel/errors.ts";
import type { Json, PlayerRef } from "../../kernel/events/events.ts";
import { closeLobby } from "./close.ts";
import { migrateHost } from "./host.ts";
import { HEARTBEAT_MS, SPECTATORS_MAX } from "./limits.ts";
import { showMember } from "./show.ts";
import { type LobbyState, type Member, playersOf } from "./state.ts";
import { autoStart, recheckCountdown } from "./start.ts";
import { type LobbyEdit, announce, touch } from "./edit.ts";

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
    if (!settings.allowSpectators) throw conflict("LOBBY_NOT_OPEN", "the lobby accepts no spectators");
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
export const seatMember = (edit: LobbyEdit, { role, ...seat }: Seat): Member => {
  const { lobby, work } = edit;
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
  touch(edit, member);
  const memberCount = playersOf(lobby).length;
  announce(edit, "lobby.member_joined", {
    lobbyId: lobby.id,
    member: showMember(lobby, member),
    memberCount,
  });
  if (role === "PLAYER") autoStart(edit);
  return member;
};

export type LeaveReason = "LEFT" | "KICKED" | "TIMEOUT";

/** Removes a member, and handles the consequences: another host, no countdown, the end of an empty lobby. */
export const removeMember = (edit: LobbyEdit, member: Member, reason: LeaveReason): void => {
  const { lobby } = edit;
  lobby.members = lobby.members.filter((other) => other !== member);
  const status = reason === "KICKED" ? "KICKED" : "LEFT";
  touch(edit, Object.assign(member, { status, graceUntil: null }));
  const { playerId, externalUserId } = member;
  const memberCount = playersOf(lobby).length;
  const left = { lobbyId: lobby.id, playerId, externalUserId, reason, memberCount };
  announce(edit, "lobby.member_left", left);
  if (member.role === "SPECTATOR") return;
  if (memberCount === 0) return closeLobby(edit, "EMPTY");
  if (lobby.hostPlayerId === playerId) migrateHost(edit);
  recheckCountdown(edit, "MEMBER_LEFT");
  // Perhaps the others have waited for this one.
  if (!member.isReady) autoStart(edit);
};

/** Marks a member as away: the seat is kept for the grace period of the lobby's state. */
export const setAway = (edit: LobbyEdit, member: Member): void => {
  const { settings, status } = edit.lobby;
  const seconds = status === "IN_GAME" ? settings.inGameGraceSeconds : settings.graceSeconds;
  const graceUntil = new Date(edit.work.now.getTime() + seconds * 1_000);
  touch(edit, Object.assign(member, { status: "DISCONNECTED", graceUntil }));
};

/** Marks a member as present, by a socket or by a heartbeat. */
export const setPresent = (edit: LobbyEdit, member: Member, presence: Member["presence"]): void => {
  const wasAway = member.status === "DISCONNECTED";
  const isBeat = presence === "API";
  const graceUntil = isBeat ? new Date(edit.work.now.getTime() + HEARTBEAT_MS) : null;
  Object.assign(member, { presence, graceUntil });
  edit.touched.set(member.playerId, member);
  if (!wasAway) return;
  touch(edit, Object.assign(member, { status: member.isReady ? "READY" : "JOINED" }));
};

export const setReady = (edit: LobbyEdit, member: Member, isReady: boolean): void => {
  if (member.isReady === isReady) return;
  member.isReady = isReady;
  if (member.status !== "DISCONNECTED") member.status = isReady ? "READY" : "JOINED";
  touch(edit, member);
  if (isReady) autoStart(edit);
  else recheckCountdown(edit, "UNREADY");
};
