import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import {
  aPlayer,
  grantXp,
  join,
  type Listener,
  matchmake,
  type Player,
  range,
} from "../support/rooms/sdk.ts";
import { must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { SteadyPlayer } from "../support/rooms/steady-player.ts";
import { startWebCluster, type Web, type WebCluster } from "../support/processes/two-servers.ts";

const PLAYERS = 24;
const GRANT_EVERY_MS = 40;
/** A process that is stopped for longer than its lease is taken for dead. */
const PAUSE_MS = 6_000;
const CONVERGED = { timeoutMs: 60_000 };

/** A room that is watched beside those of players: how it is joined, and whether it shows what it should. */
type Watched = { name: string; options(ids: Ids): object; shows(listener: Listener, ids: Ids): boolean };
type Ids = { channelId: string; lobbyId: string | undefined };

const showsPlaces = ({ room }: Listener): boolean => room.state.top.length > 0;
const WATCHED: readonly Watched[] = [
  { name: "leaderboard", options: () => ({ leaderboardKey: "top" }), shows: showsPlaces },
  { name: "leaderboard", options: () => ({ leaderboardKey: "top", top: 50 }), shows: showsPlaces },
  {
    name: "chat",
    options: ({ channelId }) => ({ channelId }),
    shows: (listener) =>
      listener.named("chat.history").some(({ data }) => data.messages[0]?.content === "hello"),
  },
  {
    name: "lobby",
    options: ({ lobbyId }) => (lobbyId ? { lobbyId } : { create: { mode: "duel", maxPlayers: 4 } }),
    shows: ({ room }, { lobbyId }) =>
      room.state.id === (lobbyId ?? room.state.id) && room.state.memberCount === 1,
  },
  {
    name: "lobbies",
    options: () => ({}),
    shows: ({ room }) => room.state.lobbies.size > 0,
  },
];

describe("web processes that die, stand still or are told to stop", () => {
  let cluster: WebCluster;
  let players: Player[];
  let clients: SteadyPlayer[];
  let watchers: Listener[];
  const ids: Ids = { channelId: "", lobbyId: undefined };
  let isLoaded = true;
  let load: Promise<unknown>;
  /** Grants that were answered; each is a line of a stream. */
  let granted = 0;

  /** Grants XP to one player after another for as long as the tests run. */
  const grant = async (): Promise<void> => {
    for (let i = 0; isLoaded; i++) {
      const { playerId } = players[i % PLAYERS]!;
      await grantXp(cluster.api, cluster.tenant.key, playerId).then(
        () => granted++,
        () => undefined,
      );
      await delay(GRANT_EVERY_MS);
    }
  };

  /** Joins a watched room, however often it has to try, and waits until it shows what it should. */
  const watch = async (i: number): Promise<Listener> => {
    const { name, options, shows } = WATCHED[i]!;
    const again = { timeoutMs: 60_000, label: `${name} can be joined` };
    const listener = await eventually(() => join(cluster.api, players[i]!.token, name, options(ids)), again);
    await eventually(() => shows(listener, ids), {
      timeoutMs: 60_000,
      label: `${name} shows what it should`,
    });
    if (name === "lobby") ids.lobbyId ??= listener.room.state.id as string;
    return listener;
  };

  /** Everybody is in a room, has been shown every line once and in order, and each room is there once. */
  const converged = (): Promise<void> =>
    eventuallyHolds(async () => {
      for (const [i, { playerId }] of players.entries()) {
        const { body } = await cluster.api.get(`/api/v1/players/${playerId}`, { key: cluster.tenant.key });
        const { shown } = clients[i]!;
        assert.ok(shown.length >= body.seq - 1, `player ${i}: shown ${shown.length} of ${body.seq}`);
        assert.deepEqual(shown, range(1, shown.length));
      }
      const rooms = await Promise.all(
        cluster.webs.map((web) => cluster.metric(web, 'laurel_rooms{room="player"}')),
      );
      const sum = rooms.reduce((total, count) => total + count, 0);
      assert.equal(sum, PLAYERS, `rooms by process: ${rooms.join()}`);
    }, CONVERGED);

  /** How long who lost their room was away, the longest first. */
  const away = (): number[] => clients.flatMap(({ awayMs }) => awayMs.splice(0)).toSorted((a, b) => b - a);

  const busiest = async (): Promise<Web> => {
    const loads = await Promise.all(
      cluster.webs.map(async (web) => ({ web, rooms: await cluster.metric(web, "laurel_ws_clients") })),
    );
    return loads.toSorted((a, b) => b.rooms - a.rooms)[0]!.web;
  };

  before(async () => {
    cluster = await startWebCluster(3);
    const { api, tenant } = cluster;
    const board = { key: "top", name: "Top", metric: { source: "XP" } };
    must(await api.post("/api/v1/leaderboards", board, { key: tenant.key }), 201);
    const channel = { kind: "PROJECT", key: "all", name: "All" };
    ids.channelId = must(await api.post("/api/v1/chat/channels", channel, { key: tenant.key }), 201).id;
    players = await Promise.all(range(1, PLAYERS).map(() => aPlayer(api, tenant.key)));
    clients = await Promise.all(players.map(({ token }) => new SteadyPlayer(api, token).play()));
    load = grant();
    const message = { content: "hello", playerId: players[0]!.playerId };
    const sent = await api.post(`/api/v1/chat/channels/${ids.channelId}/messages`, message, {
      key: tenant.key,
    });
    must(sent, 201);
    watchers = [];
    for (const i of WATCHED.keys()) watchers.push(await watch(i));
    await eventually(() => granted > PLAYERS);
    away();
  });
  after(async () => {
    isLoaded = false;
    await load;
    for (const client of clients ?? []) client.stop();
    for (const { room } of watchers ?? []) {
      room.reconnection.enabled = false;
      void room.leave().catch(() => undefined);
    }
    await cluster?.stop();
  });

  it("lose no line of a player's stream when one is killed; its clients are back elsewhere", async () => {
    const victim = await busiest();
    await cluster.kill(victim);
    await converged();
    const times = away();
    assert.ok(times.length > 0, "somebody was at the killed process");
    assert.ok(times[0]! <= 10_000, `away for ${times[0]} ms`);
    for (const i of WATCHED.keys()) watchers[i] = await watch(i);
    assert.ok(await eventually(() => sweeps(), CONVERGED), "the dead process was cleaned up after");
    await cluster.add();
  });

  const sweeps = async (): Promise<number> => {
    const counts = await Promise.all(
      cluster.webs.map((web) => cluster.metric(web, "laurel_processes_swept_total")),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  };

  it("give way when one that stood still for longer than its lease wakes up", async () => {
    const paused = await busiest();
    const own = await cluster.metric(paused, "laurel_ws_clients");
    assert.ok(own > 0);
    cluster.balancer.aim(cluster.webs.filter((web) => web !== paused).map(({ port }) => port));
    paused.child.kill("SIGSTOP");
    await delay(PAUSE_MS);
    // Somebody else comes to a player of the process that stands still: the room is made elsewhere. A
    // connection that was kept open to the stopped process never answers; the next try has another one.
    await Promise.all(
      players.slice(0, 8).map(({ token }, i) =>
        eventuallyHolds(
          async () => {
            const options = { token, limitMs: 5_000 };
            const { status, body } = await matchmake(cluster.api, "joinOrCreate/player", options);
            assert.equal(status, 200, JSON.stringify(body));
          },
          { timeoutMs: 60_000, label: `a seat for player ${i}` },
        ),
      ),
    );
    paused.child.kill("SIGCONT");
    cluster.balancer.aim(cluster.webs.map(({ port }) => port));
    await converged();
  });

  it("end in order at SIGTERM under load, and lose nothing that was answered", async () => {
    const leaving = await busiest();
    cluster.webs.splice(cluster.webs.indexOf(leaving), 1);
    cluster.balancer.aim(cluster.webs.map(({ port }) => port));
    away();
    leaving.child.kill("SIGTERM");
    assert.equal(await leaving.ended, 0, leaving.output());
    await converged();
    const codes = new Set(clients.flatMap(({ closes }) => closes));
    assert.ok(codes.has(4001), [...codes].join(", "));
    assert.ok((away()[0] ?? 0) <= 10_000);
  });
});
