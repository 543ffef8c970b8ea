import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { LEASE_MS } from "../../src/domain/kernel/live-rooms.ts";
import { aPlayer, matchmake } from "../support/rooms/sdk.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { type FaultyGame, startFaultyGame } from "../support/processes/faulty-game.ts";
import { type RedisServer, startRedis } from "../support/processes/services.ts";
import { startWebCluster, type WebCluster } from "../support/processes/two-servers.ts";

/** Once Redis is well everything else is, within this time in ms. */
const RECOVERY_MAX_MS = 10_000;
/** Nobody waits longer for an answer, in ms; twice that on a busy machine. */
const ANSWER_MAX_MS = 2 * 2_000;

/** Lines that all processes may log because of it. */
const LINES_MAX = 300;

/** What a Redis answers that cannot work as it should; `end` undoes it. */
type State = {
  name: string;
  begin(redis: Redis): Promise<unknown>;
  end(redis: Redis): Promise<unknown>;
  /** How long it is left so, in ms. */
  forMs?: number;
};

/** Every process is taken for dead by then. */
const BEYOND_LEASE_MS = LEASE_MS + 1_500;

const killOthers = (redis: Redis): Promise<unknown> =>
  redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");

const REFUSING: readonly State[] = [
  {
    name: "is out of memory and evicts nothing",
    begin: (redis) => redis.config("SET", "maxmemory", "1"),
    end: (redis) => redis.config("SET", "maxmemory", "0"),
    forMs: BEYOND_LEASE_MS,
  },
  {
    name: "has become a replica that is read only",
    begin: (redis) => redis.replicaof("127.0.0.1", 1),
    end: (redis) => redis.replicaof("NO", "ONE"),
  },
  {
    name: "takes no writes because it cannot keep them",
    begin: (redis) => redis.config("SET", "min-replicas-to-write", "1"),
    end: (redis) => redis.config("SET", "min-replicas-to-write", "0"),
  },
  {
    name: "asks for a password that Laurel has not got",
    begin: async (redis) => {
      await redis.config("SET", "requirepass", "secret");
      await killOthers(redis);
    },
    end: (redis) => redis.config("SET", "requirepass", ""),
  },
  {
    name: "takes no more connections",
    begin: async (redis) => {
      await redis.config("SET", "maxclients", "1");
      await killOthers(redis);
    },
    end: (redis) => redis.config("SET", "maxclients", "1000"),
  },
];

describe("a Redis that answers and cannot do what it is asked, under load", () => {
  let redis: RedisServer;
  let own: Redis;
  let cluster: WebCluster;
  let game: FaultyGame;

  before(async () => {
    redis = await startRedis();
    own = new Redis(redis.url);
    const env = { REDIS_URL: redis.url, WEBHOOKS_ALLOW_LOCAL: "on", LOG_LEVEL: "warn" };
    cluster = await startWebCluster(2, env);
    game = await startFaultyGame(cluster);
    await game.isWell(RECOVERY_MAX_MS);
  });
  after(async () => {
    await game?.stop();
    await cluster?.stop();
    own?.disconnect();
    await redis?.kill();
  });

  /** Joins of new rooms are refused for now, readiness tells, boards answer or say when to come again. */
  const isRefused = async (): Promise<void> => {
    const { api, tenant, webs } = cluster;
    const { token } = await aPlayer(api, tenant.key);
    const startMs = performance.now();
    const joined = await matchmake(api, "joinOrCreate/player", { token });
    assert.equal(joined.status, 503, JSON.stringify(joined.body));
    assert.ok(Number(joined.headers.get("retry-after")) >= 1);
    for (const { client } of webs) {
      const ready = await client.get("/health/ready");
      assert.equal(ready.status, 503, JSON.stringify(ready.body));
    }
    const board = await api.get("/api/v1/leaderboards/top/entries", { key: tenant.key });
    assert.ok(board.status === 200 || board.status === 503, JSON.stringify(board.body));
    const answerMs = performance.now() - startMs;
    assert.ok(answerMs < 3 * ANSWER_MAX_MS, `three answers took ${answerMs} ms`);
  };

  const linesOf = (): number =>
    [...cluster.webs, cluster.worker].reduce((sum, { output }) => sum + output().split("\n").length, 0);

  for (const { name, begin, end, forMs = 0 } of REFUSING)
    it(`${name}: events are processed, joins come back later, all is well by itself afterwards`, async () => {
      const lines = linesOf();
      await begin(own);
      try {
        await eventuallyHolds(isRefused, { timeoutMs: RECOVERY_MAX_MS });
        await delay(forMs);
        await game.isProcessed(RECOVERY_MAX_MS);
      } finally {
        await end(own);
      }
      await Promise.all([game.isWell(RECOVERY_MAX_MS), game.joinsAgain(RECOVERY_MAX_MS)]);
      const said = linesOf() - lines;
      assert.ok(said < LINES_MAX, `${said} lines were logged`);
    });

  it("kills connections: others take their place", async () => {
    await killOthers(own);
    await own.call("CLIENT", "KILL", "TYPE", "pubsub");
    await Promise.all([game.isWell(RECOVERY_MAX_MS), game.joinsAgain(RECOVERY_MAX_MS)]);
  });

  it("has lost nothing, done nothing twice and refused no event", async () => {
    await game.settle(RECOVERY_MAX_MS);
    assert.deepEqual([...game.statuses.keys()], [200], JSON.stringify([...game.statuses]));
    assert.ok(game.longestAnswerMs < ANSWER_MAX_MS, `an event was answered after ${game.longestAnswerMs} ms`);
  });
});
