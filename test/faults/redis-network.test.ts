import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { aPlayer, matchmake } from "../support/rooms/sdk.ts";
import { type FaultyGame, startFaultyGame } from "../support/processes/faulty-game.ts";
import { type RedisServer, startRedis } from "../support/processes/services.ts";
import { startTcpProxy, type TcpProxy } from "../support/faults/tcp-proxy.ts";
import { startWebCluster, type WebCluster } from "../support/processes/two-servers.ts";

/** Once the network is well everything else is, within this time in ms. */
const RECOVERY_MAX_MS = 10_000;
/** Nobody waits longer for an answer, whatever Redis does, in ms; twice that on a busy machine. */
const ANSWER_MAX_MS = 2 * 2_000;

describe("a network that fails between Laurel and Redis, under load", () => {
  let redis: RedisServer;
  let proxy: TcpProxy;
  let cluster: WebCluster;
  let game: FaultyGame;

  before(async () => {
    redis = await startRedis();
    proxy = await startTcpProxy("127.0.0.1", Number(new URL(redis.url).port));
    const env = { REDIS_URL: `redis://127.0.0.1:${proxy.port}`, WEBHOOKS_ALLOW_LOCAL: "on" };
    cluster = await startWebCluster(2, env);
    await cluster.addWorker();
    game = await startFaultyGame(cluster);
    await game.isWell(RECOVERY_MAX_MS);
  });
  after(async () => {
    await game?.stop();
    await cluster?.stop();
    await proxy?.stop();
    await redis?.kill();
  });

  /** Joins and readiness say so in time, and nobody hangs. */
  const isRefused = async (): Promise<void> => {
    const { api, tenant, webs } = cluster;
    const { token } = await aPlayer(api, tenant.key);
    const options = { token, limitMs: ANSWER_MAX_MS };
    const joined = await matchmake(api, "joinOrCreate/player", options);
    assert.equal(joined.status, 503, JSON.stringify(joined.body));
    assert.ok(Number(joined.headers.get("retry-after")) >= 1);
    const ready = await fetch(`${webs[0]!.client.url}/health/ready`, {
      signal: AbortSignal.timeout(ANSWER_MAX_MS),
    });
    assert.equal(ready.status, 503);
  };

  const survives = async (begin: () => unknown, forMs: number): Promise<void> => {
    await begin();
    await Promise.all([delay(forMs), isRefused()]);
    await proxy.restore();
    await Promise.all([game.isWell(RECOVERY_MAX_MS), game.joinsAgain(RECOVERY_MAX_MS)]);
  };

  it("ends half-open connections and makes new ones after 4 s", () =>
    survives(() => proxy.halfOpen(), 4_000));
  it("ends half-open connections and makes new ones after 10 s", () =>
    survives(() => proxy.halfOpen(), 10_000));
  it("goes on after connections that hung", () => survives(() => proxy.hang(), 3_000));
  it("goes on after connections that were slow", () => survives(() => proxy.slow(3_000), 3_000));
  it("goes on after connections that were cut", () => survives(() => proxy.cut(), 2_000));

  it("goes on after a proxy that took connections and closed them while Redis was down", () =>
    survives(() => proxy.refuseAfterAccept(), 4_000));

  it("has lost nothing, done nothing twice and refused no event", async () => {
    await game.settle(RECOVERY_MAX_MS);
    assert.deepEqual([...game.statuses.keys()], [200], JSON.stringify([...game.statuses]));
    assert.ok(game.longestAnswerMs < ANSWER_MAX_MS, `an event was answered after ${game.longestAnswerMs} ms`);
  });
});
