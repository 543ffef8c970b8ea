import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { RedisPresence } from "@colyseus/redis-presence";
import { Redis } from "ioredis";
import type { MessageFor, Topics } from "../../src/domain/kernel/topics.ts";
import { createLog } from "../../src/log.ts";
import { type ListenerCheck, redisListenerCheck, topicsOver } from "../../src/platform/topics.ts";
import { redisConnections, ResubscribingPresence } from "../../src/platform/redis-connection.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { startTcpProxy } from "../support/faults/tcp-proxy.ts";

const REDIS_URL = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";
const COUNT = 2_500;

describe("topics over Redis", () => {
  const prefix = `test-${randomUUID()}:`;
  const log = createLog({ logLevel: "silent" });
  const [here, there] = [new RedisPresence(REDIS_URL), new RedisPresence(REDIS_URL)];
  const redis = new Redis(REDIS_URL);
  const listener = topicsOver(there, { prefix, hasListeners: redisListenerCheck(redis), log });
  const publisherWith = (hasListeners: ListenerCheck): Topics =>
    topicsOver(here, { prefix, hasListeners, log });
  after(() => {
    here.shutdown();
    there.shutdown();
    redis.disconnect();
  });

  /** Messages for so many topics, and which of them were made. */
  const messages = (count: number): { made: number[]; all: MessageFor[] } => {
    const made: number[] = [];
    const make = (n: number) => {
      made.push(n);
      return { n };
    };
    return { made, all: Array.from({ length: count }, (_, n) => [`topic-${n}`, () => make(n)]) };
  };

  it("make and publish, of messages for many topics, those that a process listens to", async () => {
    const heard: number[] = [];
    const ends = await Promise.all(
      [3, 1_700, 2_499, COUNT].map((n) =>
        listener.subscribe(`topic-${n}`, (message: { n: number }) => void heard.push(message.n)),
      ),
    );
    const { made, all } = messages(COUNT);
    await publisherWith(redisListenerCheck(redis)).publishIfSubscribed(all);
    assert.deepEqual(made, [3, 1_700, 2_499]);
    await eventuallyHolds(() => assert.deepEqual(heard, [3, 1_700, 2_499]));
    for (const end of ends) end();
    await eventuallyHolds(async () => assert.equal((await redis.pubsub("CHANNELS", `${prefix}*`)).length, 0));
    const later = messages(COUNT);
    await publisherWith(redisListenerCheck(redis)).publishIfSubscribed(later.all);
    assert.deepEqual(later.made, []);
  });

  it("are heard once by who could not subscribe at first and tried again", async () => {
    const { hostname, port } = new URL(REDIS_URL);
    const proxy = await startTcpProxy(hostname, Number(port || 6379));
    const presence = new ResubscribingPresence(redisConnections(`redis://127.0.0.1:${proxy.port}`, log));
    try {
      const topics = topicsOver(presence, { prefix, hasListeners: redisListenerCheck(redis), log });
      const heard: unknown[] = [];
      const listen = () => topics.subscribe("again", (message) => void heard.push(message));
      const end = await listen();
      proxy.hang();
      await assert.rejects(listen());
      await proxy.restore();
      const second = await eventually(() => listen().catch(() => undefined));
      end();
      await eventually(async () => {
        publisherWith(redisListenerCheck(redis)).publish("again", "now");
        return heard.length > 0;
      });
      heard.length = 0;
      publisherWith(redisListenerCheck(redis)).publish("again", "last");
      await eventually(() => heard.includes("last"));
      assert.equal(heard.filter((message) => message === "last").length, 1);
      second();
    } finally {
      presence.shutdown();
      await proxy.stop();
    }
  });
});
