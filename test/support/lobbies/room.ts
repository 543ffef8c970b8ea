import assert from "node:assert/strict";
import type { SqlEntityManager } from "@mikro-orm/sql";
import { type RawBuilder, sql } from "kysely";
import { randomUUID } from "node:crypto";
import { matchMaker } from "@colyseus/core";
import type { WebSocket } from "ws";
import type { LobbyView } from "../../../src/domain/kernel/events/social-views.ts";
import type { Answer, Tenant, TestApp } from "../app/app.ts";
import { type Client, must } from "../http/client.ts";
import { aGame, type Game } from "../app/game.ts";
import { lobbyRoomId } from "../../../src/rooms/room-ids.ts";
import { eventually } from "../eventually.ts";
import { aPlayer, join, type Listener, type Player } from "../rooms/sdk.ts";

/**
 * Holds all lobbies of a database against I10: seats are counted and not oversold, a player has one seat of a
 * mode, a version is told once, a lobby ends once, and a match begins once and is ended once.
 */
export const assertLobbies = async (em: SqlEntityManager): Promise<void> => {
  const none = async (what: string, query: RawBuilder<unknown>): Promise<void> => {
    const { rows } = await query.execute(em.fork().getKysely());
    assert.deepEqual(rows, [], what);
  };
  await none(
    "lobbies whose count is not that of their members, or beyond their seats",
    sql`
      select l.id from lobbies l left join lateral (
        select count(*) filter (where role = 'PLAYER') as players,
          count(*) filter (where role = 'SPECTATOR') as spectators
        from lobby_members m
        where m.project_id = l.project_id and m.lobby_id = l.id and m.is_active) c on true
      where (l.member_count, l.spectator_count) <> (c.players, c.spectators) or c.players > l.max_players`,
  );
  await none(
    "hosts who have no seat",
    sql`
      select l.id from lobbies l
      where l.status <> 'CLOSED' and l.host_player_id is not null and not exists (
        select from lobby_members m where m.project_id = l.project_id and m.lobby_id = l.id
          and m.player_id = l.host_player_id and m.is_active and m.role = 'PLAYER')`,
  );
  await none(
    "players with two seats of a mode",
    sql`
      select player_id from lobby_members where is_active and role = 'PLAYER'
      group by project_id, player_id, mode having count(*) > 1`,
  );
  await none(
    "lobbies whose versions were not told once each",
    sql`
      select l.id from lobbies l left join (
        select project_id, data->>'lobbyId' as id, count(*) as n, max((data->>'version')::int) as last,
          count(distinct data->>'version') as versions
        from outbox where type = 'lobby.changed' group by 1, 2) o
          on o.project_id = l.project_id and o.id = l.id::text
      where (l.version, l.version, l.version) is distinct from (o.n, o.last, o.versions)`,
  );
  await none(
    "lobbies that were not told once that they ended, or were and did not",
    sql`
      select l.id from lobbies l left join (
        select project_id, data->>'lobbyId' as id, count(*) as n
        from outbox where type = 'lobby.ended' group by 1, 2) o
          on o.project_id = l.project_id and o.id = l.id::text
      where coalesce(o.n, 0) <> case when l.status = 'CLOSED' then 1 else 0 end`,
  );
  await none(
    "matches that did not begin once, or were not finished as often as they have results",
    sql`
      select m.id from lobby_matches m left join (
        select project_id, data->>'matchId' as id, count(*) filter (where type = 'lobby.started') as begun,
          count(*) filter (where type = 'lobby.game_finished') as finished
        from outbox where type in ('lobby.started', 'lobby.game_finished') group by 1, 2) o
          on o.project_id = m.project_id and o.id = m.id::text
      where (o.begun, o.finished) is distinct from (1, case when m.results is null then 0 else 1 end)`,
  );
  await none(
    "players of finished matches without exactly one event of their result",
    sql`
      select m.id from lobby_matches m
      where m.results is not null and jsonb_array_length(m.players) <> (
        select count(*) from tracked_events e
        where e.project_id = m.project_id and e.event_type = 'lobby.result'
          and e.properties->>'matchId' = m.id::text)`,
  );
};

/** A game with shorthands for its lobbies, spoken to by the key as a server would. */
export type LobbyGame = Game & {
  someone(): Promise<string>;
  several(n: number): Promise<string[]>;
  open(body?: object): Promise<LobbyView>;
  /** A lobby of a host and guests, all of whom are ready. */
  filled(guests: number, body?: object): Promise<{ lobby: LobbyView; host: string; guests: string[] }>;
  act(lobby: { id: string }, what: string, body?: object): Promise<Answer>;
  join(lobby: { id: string }, playerId: string, body?: object): Promise<Answer>;
  read(lobby: { id: string }): Promise<LobbyView>;
};

export const aLobbyGame = async (api: TestApp): Promise<LobbyGame> => {
  const game = await aGame(api);
  const lobbies: LobbyGame = {
    ...game,
    someone: () => game.player(`p-${randomUUID()}`),
    several: (n) => Promise.all(Array.from({ length: n }, () => lobbies.someone())),
    open: (body = {}) =>
      game.make("/lobbies", { mode: `m-${randomUUID().slice(0, 8)}`, maxPlayers: 4, ...body }),
    filled: async (count, body = {}) => {
      const [host, ...guests] = await lobbies.several(count + 1);
      const lobby = await lobbies.open({ hostPlayerId: host, ...body });
      for (const guest of guests) must(await lobbies.join(lobby, guest), 200);
      for (const playerId of [host!, ...guests])
        must(await lobbies.act(lobby, "ready", { playerId, ready: true }), 200);
      return { lobby: await lobbies.read(lobby), host: host!, guests };
    },
    act: ({ id }, what, body = {}) => game.post(`/lobbies/${id}/${what}`, body),
    join: (lobby, playerId, body = {}) => lobbies.act(lobby, "join", { playerId, ...body }),
    read: async ({ id }) => must(await game.get(`/lobbies/${id}`), 200),
  };
  return lobbies;
};

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
