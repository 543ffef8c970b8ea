import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { LEASE_MS } from "../../src/domain/kernel/live-rooms.ts";
import { aPlayer, type Heard, type Player, range } from "../support/rooms/sdk.ts";
import { type Answer, type Client, must } from "../support/http/client.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { type RedisServer, startRedis } from "../support/processes/services.ts";
import { joinOnce, Staying } from "../support/rooms/staying.ts";
import { SteadyPlayer } from "../support/rooms/steady-player.ts";
import { startTcpProxy, type TcpProxy } from "../support/faults/tcp-proxy.ts";
import { startWebCluster, type Web, type WebCluster } from "../support/processes/two-servers.ts";
import { pluck } from "../support/pluck.ts";

/** Longer than the lease, and until a room that was made meanwhile misses those who are not in it. */
const APART_MS = LEASE_MS + 7_000;
/** Both sides show the same by then, in ms. */
const HEALED_MAX_MS = 10_000;

describe("a web process that is cut off from Redis for longer than its lease, and serves on", () => {
  let redis: RedisServer;
  let proxy: TcpProxy;
  let cluster: WebCluster;
  /** The one that stays with Redis, and the one that is cut off. */
  let near: Web;
  let far: Web;
  /** `p` plays at both; `host` and `guest` are in a lobby from afar, `late` comes to it at the near one. */
  let p: Player;
  let host: Player;
  let guest: Player;
  let late: Player;
  const places: Staying[] = [];
  const said = new Map<Staying, Heard[]>();
  let lobbyId = "";
  let channelId = "";

  const stay = async ({ client }: Web, { token }: Player, name: string, wish: () => object) => {
    const heard: Heard[] = [];
    const place = new Staying({
      join: () => joinOnce(client, token, name, wish()),
      listen: (room) =>
        room.onMessage("*", (type: string | number, message: Heard) => {
          heard.push({ ...message, name: String(type) });
        }),
    });
    said.set(place, heard);
    places.push(place);
    return place.enter();
  };
  const post = async (path: string, body: unknown, api: Client = near.client): Promise<Answer["body"]> => {
    const { status, body: answer } = await api.post(`/api/v1${path}`, body, { key: cluster.tenant.key });
    assert.ok(status === 200 || status === 201, JSON.stringify(answer));
    return answer;
  };
  const get = async (path: string): Promise<Answer["body"]> =>
    must(await near.client.get(`/api/v1${path}`, { key: cluster.tenant.key }), 200);

  before(async () => {
    redis = await startRedis();
    proxy = await startTcpProxy("127.0.0.1", Number(new URL(redis.url).port));
    cluster = await startWebCluster(1, { REDIS_URL: redis.url });
    near = cluster.webs[0]!;
    far = await cluster.add({ REDIS_URL: `redis://127.0.0.1:${proxy.port}` });
    await post("/leaderboards", { key: "top", name: "Top", metric: { source: "XP" } });
    channelId = (await post("/chat/channels", { kind: "PROJECT", key: "all", name: "All" })).id;
    const made = range(1, 4).map(() => aPlayer(near.client, cluster.tenant.key));
    [p, host, guest, late] = (await Promise.all(made)) as [Player, Player, Player, Player];
  });
  after(async () => {
    for (const place of places) place.stop();
    await cluster?.stop();
    await proxy?.stop();
    await redis?.kill();
  });

  it("makes rooms twice at most until it is back; then both show the same, and nobody was lost", async () => {
    const from = await new SteadyPlayer(far.client, p.token).play();
    const entry = (): object => (lobbyId ? { lobbyId } : { create: { mode: "duel", maxPlayers: 4 } });
    const hosts = await stay(far, host, "lobby", entry);
    lobbyId = await eventually(() => hosts.room?.state.id as string);
    const inLobby = [hosts, await stay(far, guest, "lobby", entry)];
    const boards = [await stay(far, p, "leaderboard", () => ({ leaderboardKey: "top" }))];
    const chats = [await stay(far, host, "chat", () => ({ channelId }))];
    const lists = [await stay(far, guest, "lobbies", () => ({}))];

    proxy.halfOpen();
    // Taken for dead, so that rooms are made again at the near one.
    await delay(LEASE_MS + 2_000);
    const at = await new SteadyPlayer(near.client, p.token).play();
    inLobby.push(await stay(near, late, "lobby", entry));
    boards.push(await stay(near, p, "leaderboard", () => ({ leaderboardKey: "top" })));
    chats.push(await stay(near, late, "chat", () => ({ channelId })));
    lists.push(await stay(near, late, "lobbies", () => ({})));
    await post(`/players/${p.playerId}/xp`, { amount: 5 });
    await post(`/players/${p.playerId}/xp`, { amount: 5 }, far.client);
    await post(`/chat/channels/${channelId}/messages`, { content: "apart", playerId: late.playerId });
    await delay(APART_MS - LEASE_MS - 2_000);
    await proxy.restore();

    await post(`/chat/channels/${channelId}/messages`, { content: "again", playerId: late.playerId });
    await post(`/players/${p.playerId}/xp`, { amount: 5 });
    await eventuallyHolds(
      async () => {
        const { seq } = await get(`/players/${p.playerId}`);
        for (const { shown } of [from, at]) assert.deepEqual(shown, range(1, seq));
        const { members, version } = await get(`/lobbies/${lobbyId}`);
        assert.deepEqual(
          pluck(members, "playerId", "status"),
          [host, guest, late].map(({ playerId }) => [playerId, "JOINED"]),
        );
        for (const { room, trail } of inLobby) {
          assert.equal(room?.state.version, version, trail.join());
          assert.equal(room?.state.members.size, 3);
        }
        for (const { room } of boards)
          assert.deepEqual([...room!.state.top].map(({ score }: { score: number }) => score)[0], 15);
        for (const chat of chats) assert.deepEqual(contents(chat), ["apart", "again"]);
        for (const { room } of lists) assert.deepEqual([...room!.state.lobbies.keys()], [lobbyId]);
        for (const kind of ["player", "lobby"]) assert.equal(await roomsOf(kind), 1, `rooms ${kind}`);
      },
      { timeoutMs: HEALED_MAX_MS },
    );

    said.get(chats[0]!)!.length = 0;
    chats[1]!.room!.send("chat.typing", {});
    await eventually(() =>
      said
        .get(chats[0]!)!
        .some(({ name, data }) => name === "chat.typing" && data.playerId === late.playerId),
    );
    for (const client of [from, at]) client.stop();
  });

  const roomsOf = async (kind: string): Promise<number> => {
    const counts = cluster.webs.map((web) => cluster.metric(web, `laurel_rooms{room="${kind}"}`));
    return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
  };

  /** What a chat client was told, each message once. */
  const contents = (place: Staying): string[] => {
    const bySeq = new Map<number, string>();
    for (const { name, data } of said.get(place)!) {
      if (name === "chat.history") for (const { seq, content } of data.messages) bySeq.set(seq, content);
      if (name === "chat.message")
        bySeq.set(data.seq ?? data.message.seq, data.content ?? data.message.content);
    }
    return [...bySeq].toSorted(([a], [b]) => a - b).map(([, content]) => content);
  };
});
