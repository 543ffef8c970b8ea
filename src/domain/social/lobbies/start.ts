import { randomBytes } from "node:crypto";
import { conflict } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { playerRef } from "./show.ts";
import { type LobbyState, memberOf, playersOf } from "./state.ts";
import { assignTeams } from "./teams.ts";
import { type LobbyEdit, addOccurrence, announce, touch } from "./edit.ts";

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
  if (playersOf(lobby).length < minPlayers) return `it takes ${minPlayers} players`;
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
export const recheckCountdown = (edit: LobbyEdit, by: CancelledBy): void => {
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

const teamsOf = (lobby: LobbyState): { team: number; playerIds: string[] }[] => {
  const { teams } = lobby.settings;
  if (!teams) return [];
  return Array.from({ length: teams.count }, (_, i) => {
    const players = playersOf(lobby).filter(({ team }) => team === i + 1);
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
