import { conflict, forbidden, invalid } from "../../kernel/errors.ts";
import { type LobbyState, type Member, memberOf } from "./state.ts";
import type { LobbyActor, LobbyView } from "../../kernel/events/lobby-views.ts";

/** Returns the acting player. @throws DomainError VALIDATION_ERROR for a server that names none */
export const playerOf = (actor: LobbyActor): string => {
  if (actor.kind === "PLAYER") return actor.playerId;
  throw invalid("playerId", "is required: the player whose seat it is");
};

/** Returns the acting member. @throws DomainError VALIDATION_ERROR; CONFLICT NOT_IN_LOBBY */
export const actingMember = (lobby: LobbyState, actor: LobbyActor): Member => {
  const member = memberOf(lobby, playerOf(actor));
  if (!member) throw notInLobby();
  return member;
};

export const notInLobby = () => conflict("NOT_IN_LOBBY", "the player is not in the lobby");

export const isHost = ({ hostPlayerId }: LobbyState, actor: LobbyActor): boolean =>
  actor.kind === "PLAYER" && actor.playerId === hostPlayerId;

/** Servers and the console may do what the host may. @throws DomainError FORBIDDEN NOT_HOST */
export const requireHost = (lobby: LobbyState, actor: LobbyActor): void => {
  if (actor.kind === "PLAYER" && !isHost(lobby, actor))
    throw forbidden("NOT_HOST", "only the host of the lobby may do this");
};

/** Returns a lobby as the actor of a change may see it: members and servers see `privateData`. */
export const lobbyFor = (lobby: LobbyView, actor: LobbyActor): LobbyView => {
  if (actor.kind !== "PLAYER") return lobby;
  if (lobby.members.some(({ playerId }) => playerId === actor.playerId)) return lobby;
  const { privateData: _hidden, ...seen } = lobby;
  return seen;
};
