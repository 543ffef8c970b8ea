import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Redis, RedisOptions } from "ioredis";
import { pino } from "pino";
import { redisConnections, ResubscribingPresence } from "../../src/platform/redis-connection.ts";
import { eventually } from "../support/eventually.ts";
import { startTcpProxy } from "../support/faults/tcp-proxy.ts";
import { madeOnce } from "../support/made.ts";

/** Longer than a command waits for its answer, in ms. */
const OUTAGE_MS = 2_500;
const RECOVERY_MAX_MS = 5_000;

describe("connections to Redis", () => {
  const target = new URL(process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379");
  let url: string;
  const proxy = madeOnce(
    () => startTcpProxy(target.hostname, Number(target.port || 6_379)),
    (made) => made.stop(),
  );
  before(async () => {
    url = `redis://127.0.0.1:${proxy.port}`;
  });

  /** After an outage in which connections were taken and closed; `isBack` is asked until it is. */
  const isBackAfterOutage = async (redis: Redis, isBack: () => Promise<boolean>): Promise<void> => {
    try {
      await redis.ping();
      proxy.refuseAfterAccept();
      await delay(OUTAGE_MS);
      await proxy.restore();
      await eventually(() => isBack().catch(() => false), { timeoutMs: RECOVERY_MAX_MS });
      assert.equal(redis.stream.destroyed, false);
    } finally {
      redis.disconnect();
    }
  };

  const kinds: readonly [name: string, options: RedisOptions][] = [
    ["a subscriber's", {}],
    // The client then takes a connection for ready that has closed already: it is made anew.
    ["one that was taken for ready when it had closed", { disableClientInfo: false }],
  ];
  for (const [name, options] of kinds)
    it(`work again after an outage behind a proxy that takes and closes them: ${name}`, async () => {
      const pub = redisConnections(url, pino({ level: "silent" })).open();
      const sub = pub.duplicate({ enableReadyCheck: false, ...options });
      pub.disconnect();
      sub.on("error", () => undefined);
      await isBackAfterOutage(sub, async () => (await sub.subscribe("laurel-test:a-topic")) === 1);
    });

  it("work again after such an outage: one that blocks", async () => {
    const redis = redisConnections(url, pino({ level: "silent" })).openBlocking();
    await isBackAfterOutage(redis, async () => (await redis.ping()) === "PONG");
  });

  it("give each command its own answer after one in a transaction was given up", async () => {
    const opened = redisConnections(url, pino({ level: "silent" })).open();
    opened.disconnect();
    // What waits is given up by its time alone, and not when a connection was refused.
    const redis = opened.duplicate({ maxRetriesPerRequest: null });
    redis.on("error", () => undefined);
    const key = `laurel-test:${randomUUID()}`;
    try {
      await redis.ping();
      await proxy.cut();
      await eventually(() => redis.status !== "ready");
      redis
        .multi()
        .set(key, "one", "EX", 60)
        .get(key)
        .exec()
        .catch(() => undefined);
      await assert.rejects(redis.get(key), /Command timed out/);
      await proxy.restore();
      await eventually(async () => (await redis.ping().catch(() => "")) === "PONG");
      for (const value of ["a", "b", "c", "d"]) assert.equal(await redis.echo(value), value);
    } finally {
      redis.disconnect();
    }
  });

  it("that hear nothing fail the check of readiness", async () => {
    const presence = new ResubscribingPresence(redisConnections(url, pino({ level: "silent" })));
    try {
      await presence.checkSubscriber();
      (presence["sub"] as Redis).disconnect();
      await assert.rejects(presence.checkSubscriber(), /Connection is closed/);
    } finally {
      presence.shutdown();
    }
  });

  it("that are away leave no rejection of a promise that core forgets unhandled", async () => {
    const presence = new ResubscribingPresence(redisConnections(url, pino({ level: "silent" })));
    await presence.checkSubscriber();
    presence.shutdown();
    const unhandled: unknown[] = [];
    const hear = (error: unknown): void => void unhandled.push(error);
    const others = process.listeners("unhandledRejection");
    process.removeAllListeners("unhandledRejection");
    process.on("unhandledRejection", hear);
    try {
      const forgotten = [
        presence.hset("laurel-test:roomcount", "p1", "1,1"),
        presence.publish("laurel-test:a-topic", 1),
        presence.subscribe("laurel-test:a-topic", () => undefined),
        presence.unsubscribe("laurel-test:a-topic"),
      ];
      assert.equal(await presence.subscribe("ipc:a-question", () => undefined), presence);
      await delay(OUTAGE_MS / 10);
      assert.deepEqual(unhandled, []);
      for (const { status } of await Promise.allSettled(forgotten)) assert.equal(status, "rejected");
    } finally {
      process.off("unhandledRejection", hear);
      for (const other of others) process.on("unhandledRejection", other);
    }
  });
});
