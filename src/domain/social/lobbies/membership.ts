import { hash, randomBytes } from "node:crypto";
import { conflict, numbered } from "../../kernel/errors.ts";
import type {
  LobbyCloseReason,
  LobbyResult,
  LobbyStatus,
  LobbyTeams,
} from "../../kernel/events/social-views.ts";
import type { Json, PlayerRef } from "../../kernel/events/events.ts";
import { fnv1a, newId } from "../../kernel/ids.ts";
import { addOccurrence, announce, type LobbyEdit, playerRef, showMember, touch } from "./edit.ts";
import { HEARTBEAT_MS, SPECTATORS_MAX } from "./fields.ts";
import { type LobbyState, type Member, memberOf, playersOf } from "./state.ts";

/** Duration of a game in whole seconds; null when none began. */
export const secondsSince = (startedAt: Date | null, now: Date): number | null =>
  startedAt && Math.round((now.getTime() - startedAt.getTime()) / 1_000);

/** Closes a lobby permanently; all seats become free. Emits `lobby.ended` as its last event. */
export const closeLobby = (edit: LobbyEdit, reason: LobbyCloseReason, results?: LobbyResult[]): void => {
  const { lobby, work } = edit;
  const { now } = work;
  const players = playersOf(lobby).map(playerRef);
  const previousStatus = lobby.status as Exclude<LobbyStatus, "CLOSED">;
  for (const member of lobby.members)
    touch(edit, Object.assign(member, { status: "LEFT", graceUntil: null }));
  lobby.members = [];
  Object.assign(lobby, { status: "CLOSED", closeReason: reason, endedAt: now, startsAt: null });
  touch(edit);
  announce(edit, "lobby.ended", {
    lobbyId: lobby.id,
    matchId: lobby.matchId,
    mode: lobby.mode,
    previousStatus,
    closeReason: reason,
    startedAt: lobby.startedAt?.toISOString() ?? null,
    endedAt: now.toISOString(),
    durationSeconds: secondsSince(lobby.startedAt, now),
    players,
    results: results ?? null,
    metadata: lobby.metadata,
  });
};

export const setHost = (edit: LobbyEdit, { playerId }: Member): void => {
  const { lobby } = edit;
  const previousHost = lobby.hostPlayerId;
  lobby.hostPlayerId = playerId;
  touch(edit);
  announce(edit, "lobby.host_changed", { lobbyId: lobby.id, previousHost, newHost: playerId });
};

/** Replaces a host who has left: by a present member, or else by an absent one; or closes the lobby. */
const migrateHost = (edit: LobbyEdit): void => {
  const { lobby } = edit;
  const { hostMigration } = lobby.settings;
  if (hostMigration === "CLOSE") return closeLobby(edit, "HOST_LEFT");
  const players = playersOf(lobby);
  const present = players.filter(({ status }) => status !== "DISCONNECTED");
  const heirs = present.length > 0 ? present : players;
  const chosen = hostMigration === "RANDOM" ? fnv1a(`${lobby.id}:${lobby.version}`) % heirs.length : 0;
  setHost(edit, heirs[chosen]!);
};

export type TeamPlayer = { playerId: string; rating: number };
type TeamSlot = { team: number; slot: number };

/** Returns a number below `n` derived from the seed and a step. */
const pick = (seed: string, step: number, n: number): number =>
  Number.parseInt(hash("sha256", `${seed}:${step}`, "hex").slice(0, 12), 16) % n;

/** Fisher-Yates shuffle, determined by the seed. */
const shuffle = <T>(items: readonly T[], seed: string): T[] => {
  const mixed = [...items];
  for (let i = mixed.length - 1; i > 0; i--) {
    const j = pick(seed, i, i + 1);
    [mixed[i], mixed[j]] = [mixed[j]!, mixed[i]!];
  }
  return mixed;
};

/** Deals players to teams 1 2 3, 1 2 3 …; as a snake 1 2 3, 3 2 1, 1 2 3 …: late in one round is early in the next. */
const deal = (players: readonly TeamPlayer[], count: number, isSnake: boolean): TeamPlayer[][] => {
  const teams: TeamPlayer[][] = Array.from({ length: count }, () => []);
  players.forEach((player, i) => {
    const [round, place] = [Math.floor(i / count), i % count];
    teams[isSnake && round % 2 === 1 ? count - 1 - place : place]!.push(player);
  });
  return teams;
};

const sumOf = (team: readonly TeamPlayer[]): number => team.reduce((sum, { rating }) => sum + rating, 0);

/** Returns the difference between the strongest and the weakest team. */
export const spreadOf = (teams: readonly (readonly TeamPlayer[])[]): number => {
  const sums = teams.map(sumOf);
  return Math.max(...sums) - Math.min(...sums);
};

type Swap = { a: number; b: number; spread: number };

/** Returns the swap between the strongest and the weakest team that lowers the spread most. */
const bestSwap = (
  strong: readonly TeamPlayer[],
  weak: readonly TeamPlayer[],
  sums: number[],
): Swap | undefined => {
  const [high, low] = [sumOf(strong), sumOf(weak)];
  let best: Swap | undefined;
  let spread = Math.max(...sums, high, low) - Math.min(...sums, high, low);
  for (const [a, { rating: mine }] of strong.entries())
    for (const [b, { rating: theirs }] of weak.entries()) {
      const next = [...sums, high - mine + theirs, low + mine - theirs];
      const after = Math.max(...next) - Math.min(...next);
      if (after < spread) [best, spread] = [{ a, b, spread: after }, after];
    }
  return best;
};

/** Swaps players of the strongest and the weakest team while that lowers the spread, n² times at most. */
const level = (teams: TeamPlayer[][], n: number): void => {
  for (let i = 0; i < n * n; i++) {
    const order = teams.toSorted((a, b) => sumOf(b) - sumOf(a));
    const [strong, weak] = [order[0]!, order.at(-1)!];
    const swap = strong === weak ? undefined : bestSwap(strong, weak, order.slice(1, -1).map(sumOf));
    if (!swap) return;
    [strong[swap.a], weak[swap.b]] = [weak[swap.b]!, strong[swap.a]!];
  }
};

/**
 * Assigns every player a team and a slot in it, both from 1; team sizes differ by one player at most. RANDOM
 * is determined by the seed. BALANCED depends on nothing but ratings and ids.
 */
export const assignTeams = (
  players: readonly TeamPlayer[],
  { count, assignment }: LobbyTeams,
  seed: string,
): Map<string, TeamSlot> => {
  const teams =
    assignment === "RANDOM" ? deal(shuffle(players, seed), count, false) : balance(players, count);
  return new Map(
    teams.flatMap((team, t) =>
      team.map(({ playerId }, s) => [playerId, { team: t + 1, slot: s + 1 }] as const),
    ),
  );
};

/** Returns teams of similar strength. */
const balance = (players: readonly TeamPlayer[], count: number): TeamPlayer[][] => {
  const sorted = players.toSorted(
    (a, b) => b.rating - a.rating || Number(a.playerId > b.playerId) - Number(a.playerId < b.playerId),
  );
  const teams = deal(sorted, count, true);
  level(teams, players.length);
  return teams;
};

const SEED_BYTES = 16;

const isReadyEnough = (lobby: LobbyState): boolean => {
  const players = playersOf(lobby);
  const ready = players.filter(({ isReady }) => isReady).length;
  switch (lobby.settings.readyPolicy) {
    case "ALL":
      return ready === players.length;
    case "MAJORITY":
      return ready * 2 > players.length && ready >= lobby.minPlayers;
    case "HOST":
      return true;
  }
};

const hasTeams = (lobby: LobbyState): boolean => {
  const { teams } = lobby.settings;
  return teams?.assignment !== "MANUAL" || playersOf(lobby).every(({ team }) => team !== null);
};

const isFull = (lobby: LobbyState): boolean => playersOf(lobby).length >= lobby.maxPlayers;

/**
 * Returns why a game cannot begin; undefined when it can. A lobby that starts automatically when full ignores
 * readiness.
 */
const startProblem = (lobby: LobbyState): string | undefined => {
  const { minPlayers, settings } = lobby;
  if (playersOf(lobby).length < minPlayers) return `it takes ${numbered(minPlayers, "player")}`;
  if (!hasTeams(lobby)) return "a player has no team";
  if (isReadyEnough(lobby) || (settings.autoStart && isFull(lobby))) return undefined;
  return "not enough players are ready";
};

/**
 * Begins the countdown; with zero seconds the game begins at once.
 * @throws DomainError CONFLICT: LOBBY_NOT_OPEN, LOBBY_NOT_READY
 */
export const startCountdown = (edit: LobbyEdit, countdownSeconds?: number): void => {
  const { lobby, work } = edit;
  if (lobby.status !== "OPEN") throw conflict("LOBBY_NOT_OPEN", `the lobby is ${lobby.status}`);
  const problem = startProblem(lobby);
  if (problem !== undefined) throw conflict("LOBBY_NOT_READY", problem);
  const seconds = countdownSeconds ?? lobby.settings.countdownSeconds;
  lobby.status = "STARTING";
  lobby.seed = randomBytes(SEED_BYTES).toString("hex");
  lobby.startsAt = new Date(work.now.getTime() + seconds * 1_000);
  fillTeams(edit, lobby.seed);
  touch(edit);
  const startsAt = lobby.startsAt.toISOString();
  addOccurrence(edit, "lobby.countdown", { lobbyId: lobby.id, startsAt, secondsLeft: seconds });
  if (seconds === 0) beginGame(edit);
};

const fillTeams = (edit: LobbyEdit, seed: string): void => {
  const { lobby } = edit;
  const { teams } = lobby.settings;
  if (!teams || teams.assignment === "MANUAL") return;
  const places = assignTeams(playersOf(lobby), teams, seed);
  for (const player of playersOf(lobby)) touch(edit, Object.assign(player, places.get(player.playerId)));
};

/** Clears teams that are assigned at the start, so that the next start assigns them again. */
export const clearTeams = (edit: LobbyEdit): void => {
  const { teams } = edit.lobby.settings;
  if (!teams || teams.assignment === "MANUAL") return;
  for (const player of playersOf(edit.lobby)) touch(edit, Object.assign(player, { team: null, slot: null }));
};

type CancelledBy = "HOST" | "UNREADY" | "MEMBER_LEFT";

export const cancelCountdown = (edit: LobbyEdit, by: CancelledBy): void => {
  const { lobby } = edit;
  Object.assign(lobby, { status: "OPEN", startsAt: null, seed: null });
  clearTeams(edit);
  touch(edit);
  addOccurrence(edit, "lobby.countdown_cancelled", { lobbyId: lobby.id, by });
};

/** Cancels a countdown whose conditions no longer hold. */
const recheckCountdown = (edit: LobbyEdit, by: CancelledBy): void => {
  const { lobby } = edit;
  if (lobby.status === "STARTING" && startProblem(lobby) !== undefined) cancelCountdown(edit, by);
};

/** Starts a lobby with automatic start: when it is full, or with ALL when everybody is ready. */
export const autoStart = (edit: LobbyEdit): void => {
  const { lobby } = edit;
  const { autoStart: isAutomatic, readyPolicy } = lobby.settings;
  if (!isAutomatic || lobby.status !== "OPEN" || startProblem(lobby) !== undefined) return;
  if (isFull(lobby) || readyPolicy === "ALL") startCountdown(edit);
};

const playersIn = (lobby: LobbyState, team: number | null): Member[] =>
  playersOf(lobby).filter((player) => player.team === team);

const teamsOf = (lobby: LobbyState): { team: number; playerIds: string[] }[] => {
  const { teams } = lobby.settings;
  if (!teams) return [];
  return Array.from({ length: teams.count }, (_, i) => {
    const players = playersIn(lobby, i + 1);
    return { team: i + 1, playerIds: players.map(({ playerId }) => playerId) };
  });
};

/** Begins a match after the countdown. */
export const beginGame = (edit: LobbyEdit): void => {
  const { lobby, work } = edit;
  const matchId = newId();
  const players = playersOf(lobby);
  Object.assign(lobby, { status: "IN_GAME", matchId, startedAt: work.now, startsAt: null, results: null });
  edit.match = { id: matchId, playerIds: players.map(({ playerId }) => playerId), startedAt: work.now };
  touch(edit);
  const host = lobby.hostPlayerId === null ? undefined : memberOf(lobby, lobby.hostPlayerId);
  announce(edit, "lobby.started", {
    lobbyId: lobby.id,
    matchId,
    code: lobby.code,
    mode: lobby.mode,
    host: host ? playerRef(host) : null,
    players: players.map(({ displayName, team, slot, data, ...player }) => ({
      ...playerRef(player),
      displayName,
      team,
      slot,
      data,
    })),
    teams: teamsOf(lobby),
    metadata: lobby.metadata,
    seed: lobby.seed!,
    startedAt: work.now.toISOString(),
  });
};

/** A player taking a seat, and how. */
type Seat = PlayerRef & {
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
  if (players >= maxPlayers) throw conflict("LOBBY_FULL", `the lobby has ${numbered(maxPlayers, "player")}`);
};

/** Returns the lowest free slot of a team, or of a lobby without teams; from 1. */
export const freeSlot = (lobby: LobbyState, team: number | null): number => {
  const taken = playersIn(lobby, team).map(({ slot }) => slot);
  let slot = 1;
  while (taken.includes(slot)) slot++;
  return slot;
};

/** Assigns a late player to the smallest team; before a game teams are chosen or assigned. */
const placeOf = (lobby: LobbyState): { team: number | null; slot: number | null } => {
  const { teams } = lobby.settings;
  if (!teams) return { team: null, slot: freeSlot(lobby, null) };
  if (lobby.status !== "IN_GAME") return { team: null, slot: null };
  const sizes = teamsOf(lobby).map(({ playerIds }) => playerIds.length);
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
