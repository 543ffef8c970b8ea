import { randomBytes } from "node:crypto";
import { conflict } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import { playerRef } from "./show.ts";
import { type LobbyState, memberOf, playersOf } from "./state.ts";
import { assignTeams } from "./teams.ts";
import { type LobbyTurn, occur, tell, touch } from "./turn.ts";

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
export const startCountdown = (turn: LobbyTurn, countdownSeconds?: number): void => {
  const { lobby, work } = turn;
  if (lobby.status !== "OPEN") throw conflict("LOBBY_NOT_OPEN", `the lobby is ${lobby.status}`);
  const problem = startProblem(lobby);
  if (problem !== undefined) throw conflict("LOBBY_NOT_READY", problem);
  const seconds = countdownSeconds ?? lobby.settings.countdownSeconds;
  lobby.status = "STARTING";
  lobby.seed = randomBytes(SEED_BYTES).toString("hex");
  lobby.startsAt = new Date(work.now.getTime() + seconds * 1_000);
  fillTeams(turn, lobby.seed);
  touch(turn);
  const startsAt = lobby.startsAt.toISOString();
  occur(turn, "lobby.countdown", { lobbyId: lobby.id, startsAt, secondsLeft: seconds });
  if (seconds === 0) beginGame(turn);
};

const fillTeams = (turn: LobbyTurn, seed: string): void => {
  const { lobby } = turn;
  const { teams } = lobby.settings;
  if (!teams || teams.assignment === "MANUAL") return;
  const places = assignTeams(playersOf(lobby), teams, seed);
  for (const player of playersOf(lobby)) touch(turn, Object.assign(player, places.get(player.playerId)));
};

/** Clears teams that are assigned at the start, so that the next start assigns them again. */
export const clearTeams = (turn: LobbyTurn): void => {
  const { teams } = turn.lobby.settings;
  if (!teams || teams.assignment === "MANUAL") return;
  for (const player of playersOf(turn.lobby)) touch(turn, Object.assign(player, { team: null, slot: null }));
};

type CancelledBy = "HOST" | "UNREADY" | "MEMBER_LEFT";

export const cancelCountdown = (turn: LobbyTurn, by: CancelledBy): void => {
  const { lobby } = turn;
  Object.assign(lobby, { status: "OPEN", startsAt: null, seed: null });
  clearTeams(turn);
  touch(turn);
  occur(turn, "lobby.countdown_cancelled", { lobbyId: lobby.id, by });
};

/** Cancels a countdown whose conditions no longer hold. */
export const recheckCountdown = (turn: LobbyTurn, by: CancelledBy): void => {
  const { lobby } = turn;
  if (lobby.status === "STARTING" && startProblem(lobby) !== undefined) cancelCountdown(turn, by);
};

/** Starts a lobby with automatic start: when it is full, or with ALL when everybody is ready. */
export const autoStart = (turn: LobbyTurn): void => {
  const { lobby } = turn;
  const { autoStart: isAutomatic, readyPolicy } = lobby.settings;
  if (!isAutomatic || lobby.status !== "OPEN" || startProblem(lobby) !== undefined) return;
  if (isFull(lobby) || readyPolicy === "ALL") startCountdown(turn);
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
export const beginGame = (turn: LobbyTurn): void => {
  const { lobby, work } = turn;
  const matchId = newId();
  const players = playersOf(lobby);
  Object.assign(lobby, { status: "IN_GAME", matchId, startedAt: work.now, startsAt: null, results: null });
  turn.match = { id: matchId, playerIds: players.map(({ playerId }) => playerId), startedAt: work.now };
  touch(turn);
  const host = lobby.hostPlayerId === null ? undefined : memberOf(lobby, lobby.hostPlayerId);
  tell(turn, "lobby.started", {
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
