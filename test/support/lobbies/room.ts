import { matchMaker } from "@colyseus/core";
import type { WebSocket } from "ws";
import type { LobbyView } from "../../../src/domain/kernel/events/chat-views.ts";
import { lobbyRoomId } from "../../../src/rooms/mirror-room.ts";
import type { Tenant } from "../app/app.ts";
import { type Client, must } from "../http/client.ts";
import { eventually } from "../eventually.ts";
import { aPlayer, join, type Listener, type Player } from "../rooms/sdk.ts";

/** One player in a lobby's room. */
export type InLobby = Player & Listener & { lobbyId: string };

/** Enters a lobby by `options` of room `lobby`, and waits for its state. */
export const enter = async (
  api: Client,
  player: Player,
  options: object,
  isMember = true,
): Promise<InLobby> => {
  const joined = await join(api, player.token, "lobby", options);
  await eventually(() => !!joined.room.state.id && (!isMember || !!memberIn(joined, player)), {
    label: "the state of the lobby has come",
  });
  const { token, playerId, externalUserId } = player;
  const lobbyId = joined.room.state.id as string;
  return Object.assign(joined, { token, playerId, externalUserId, lobbyId });
};

/** A lobby that a new player has made by its room; `create` over what it takes. */
export const aLobby = async (api: Client, { key }: Tenant, create: object = {}): Promise<InLobby> =>
  enter(api, await aPlayer(api, key), { create: { mode: "duel", maxPlayers: 4, ...create } });

/** A new player who joins the lobby of `host`. */
export const aGuest = async (
  api: Client,
  { key }: Tenant,
  host: InLobby,
  options: object = {},
): Promise<InLobby> => enter(api, await aPlayer(api, key), { lobbyId: host.lobbyId, ...options });

/** How `listener` sees a player; undefined for who is not in the lobby. */
export const memberIn = (
  { room }: Listener,
  { playerId }: Pick<Player, "playerId">,
): { status: string; data: string } | undefined => room.state.members?.get(playerId);

/** The lobby as the API shows it. */
export const readByApi = async (api: Client, { key }: Tenant, lobbyId: string): Promise<LobbyView> =>
  must(await api.get(`/api/v1/lobbies/${lobbyId}`, { key }), 200);

/** What a client shares with all others of the room. */
export const sharedState = ({ room }: Listener): Record<string, unknown> => {
  const { privateData: _privateData, ...shared } = room.state.toJSON();
  return shared;
};

/** Ends a connection without a word, as a network does; `isForGood` keeps the SDK from coming back. */
export const drop = ({ projectId }: Tenant, who: InLobby, isForGood = false): void => {
  Object.assign(who.room.reconnection, isForGood ? { enabled: false } : { minUptime: 0 });
  const room = matchMaker.getLocalRoomById(lobbyRoomId(projectId, who.lobbyId));
  (room.clients.get(who.room.sessionId)!.ref as WebSocket).terminate();
};

/** What a request was rejected with. */
export const rejection = async (request: Promise<unknown>): Promise<{ code: string; reason?: string }> => {
  const answer = await request.then(
    (value) => ({ value }),
    (error: { reason?: { code: string; reason?: string } }) => ({ error }),
  );
  if ("value" in answer) throw new Error(`it was answered: ${JSON.stringify(answer.value)}`);
  if (!answer.error.reason) throw answer.error as Error;
  return answer.error.reason;
};
