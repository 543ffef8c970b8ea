import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { aPlayer, matchmake, type Player, range } from "../support/rooms/sdk.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { type RedisServer, startRedis } from "../support/processes/services.ts";
import { SteadyPlayer } from "../support/rooms/steady-player.ts";
import { startWebCluster, type WebCluster } from "../support/processes/two-servers.ts";
import { pluck } from "../support/pluck.ts";

const PLAYERS = 16;
const EVENT_EVERY_MS = 30;
const AWAY_MS = 2_500;

describe("a Redis that is killed and comes back empty under load", () => {
  let redis: RedisServer;
  let cluster: WebCluster;
  let players: Player[];
  let clients: SteadyPlayer[];
  const statuses = new Map<number, number>();
  let isLoaded = true;
  let load: Promise<void>;

  const ingest = async (): Promise<void> => {
    const { api, tenant } = cluster;
    for (let i = 0; isLoaded; i++) {
      const { externalUserId } = players[i % PLAYERS]!;
      const event = { externalUserId, eventType: "played", idempotencyKey: randomUUID() };
      const { status } = await api.post("/api/v1/events", event, { key: tenant.key });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      await delay(EVENT_EVERY_MS);
    }
  };

  /** Where each player's room is, by the seat that a join is given. */
  const seats = async (): Promise<{ roomId: string; processId: string }[]> =>
    Promise.all(
      players.map(async ({ token }) => {
        const body = must(await matchmake(cluster.api, "joinOrCreate/player", { token }), 200);
        return { roomId: body.roomId, processId: body.processId };
      }),
    );

  before(async () => {
    redis = await startRedis();
    cluster = await startWebCluster(2, { REDIS_URL: redis.url });
    const { api, tenant } = cluster;
    players = await Promise.all(range(1, PLAYERS).map(() => aPlayer(api, tenant.key)));
    clients = await Promise.all(players.map(({ token }) => new SteadyPlayer(api, token).play()));
    load = ingest();
  });
  after(async () => {
    isLoaded = false;
    await load;
    for (const client of clients ?? []) client.stop();
    await cluster?.stop();
    await redis?.kill();
  });

  /** Everybody hears of something new, and each room is there once. */
  const spread = async (): Promise<void> => {
    const { api, tenant } = cluster;
    const grants = players.map(({ playerId }) =>
      eventually(
        async () =>
          (await api.post(`/api/v1/players/${playerId}/xp`, { amount: 5 }, { key: tenant.key })).status ===
          201,
      ),
    );
    await Promise.all(grants);
    await eventuallyHolds(
      async () => {
        const rooms = await Promise.all(
          cluster.webs.map((web) => cluster.metric(web, 'laurel_rooms{room="player"}')),
        );
        assert.equal(rooms[0]! + rooms[1]!, PLAYERS, `rooms by process: ${rooms.join()}`);
        for (const [i, { playerId }] of players.entries()) {
          const { body } = await api.get(`/api/v1/players/${playerId}`, { key: tenant.key });
          assert.deepEqual(clients[i]!.shown, range(1, body.seq));
        }
      },
      { timeoutMs: 60_000 },
    );
  };

  it("finds every room where it is, once, right after all of Redis was deleted", async () => {
    const before = await seats();
    const own = new Redis(redis.url);
    await own.flushall();
    own.disconnect();
    const found = await eventually(seats, { timeoutMs: 60_000, label: "players can join again" });
    assert.deepEqual(pluck(found, "roomId"), pluck(before, "roomId"));
    await spread();
  });

  it("refuses no event, and every room is found again under its id, once", async () => {
    // A process may have noticed only now that its listings were gone.
    const before = await eventually(seats, { timeoutMs: 60_000, label: "all is listed" });
    await redis.kill();
    await delay(AWAY_MS);
    await redis.start();

    const found = await eventually(seats, { timeoutMs: 60_000, label: "players can join again" });
    assert.deepEqual(pluck(found, "roomId"), pluck(before, "roomId"));
    await spread();
    isLoaded = false;
    await load;
    assert.deepEqual([...statuses.keys()], [200], JSON.stringify([...statuses]));
  });
});
