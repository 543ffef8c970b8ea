import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { pino } from "pino";
import type { HandNotes, OthersNote } from "../../src/domain/progression/in-hand.ts";
import { redisConnections } from "../../src/platform/redis-connection.ts";
import { createRedisHandNotes, HAND_LEASE_MS } from "../../src/platform/redis-hand-notes.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { startTcpProxy } from "../support/faults/tcp-proxy.ts";

const REDIS_URL = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";
const log = pino({ level: "silent" });

describe("notes of what processes have in hand, in Redis", () => {
  let namespace: string;
  const opened: Redis[] = [];
  const admin = new Redis(REDIS_URL);
  beforeEach(() => {
    namespace = `laurel-test-${randomUUID().slice(0, 8)}`;
  });
  afterEach(async () => {
    for (const redis of opened.splice(0)) redis.disconnect();
    const keys = await admin.keys(`${namespace}:*`);
    if (keys.length > 0) await admin.del(...keys);
  });
  after(() => admin.disconnect());

  const aProcess = async (url = REDIS_URL): Promise<{ redis: Redis; notes: HandNotes }> => {
    const redis = redisConnections(url, log).open();
    opened.push(redis);
    await redis.ping();
    return { redis, notes: createRedisHandNotes(redis, namespace) };
  };
  const textsOf = (notes: readonly OthersNote[]) => notes.map(({ text, isDead }) => [text, isDead]);

  it("are the others', whose processes are dead when they were not heard of for a lease", async () => {
    const [one, two, three] = [await aProcess(), await aProcess(), await aProcess()];
    await one.notes.look();
    one.notes.note("of one");
    await two.notes.look();
    two.notes.note("of two");
    await eventuallyHolds(async () =>
      assert.deepEqual(textsOf(await three.notes.look()).toSorted(), [
        ["of one", false],
        ["of two", false],
      ]),
    );
    assert.deepEqual(textsOf(await two.notes.look()), [["of one", false]]);
    // One is heard of no more; two looks as a worker does.
    const dead = await eventually(
      async () => {
        await two.notes.look();
        return (await three.notes.look()).find(({ isDead }) => isDead);
      },
      { timeoutMs: 3 * HAND_LEASE_MS },
    );
    assert.equal(dead.text, "of one");

    await three.notes.forget([{ ...dead, text: "another" }]);
    assert.equal((await three.notes.look()).length, 2, "a note that was replaced stays");
    await three.notes.forget([dead]);
    assert.deepEqual(textsOf(await three.notes.look()), [["of two", false]]);
    await two.notes.close();
    assert.deepEqual(await three.notes.look(), []);
  });

  it("are written again by the next look when Redis has lost them", async () => {
    const [one, two] = [await aProcess(), await aProcess()];
    one.notes.note("of one");
    await one.notes.look();
    await admin.del(`${namespace}:in-hand:leases`, `${namespace}:in-hand:notes`);
    await one.notes.look();
    assert.deepEqual(textsOf(await two.notes.look()), [["of one", false]]);
  });

  it("hold nobody up while the connection is half-open, and arrive when it is well", async () => {
    const target = new URL(REDIS_URL);
    const proxy = await startTcpProxy(target.hostname, Number(target.port || 6_379));
    try {
      const [one, two] = [await aProcess(`redis://127.0.0.1:${proxy.port}`), await aProcess()];
      await one.notes.look();
      proxy.halfOpen();
      one.notes.note("of one");
      await assert.rejects(one.notes.look());
      assert.deepEqual(await two.notes.look(), []);
      await proxy.restore();
      await eventually(() => one.notes.look().then(() => true), { timeoutMs: 60_000 });
      assert.deepEqual(textsOf(await two.notes.look()), [["of one", false]]);
    } finally {
      await proxy.stop();
    }
  });
});
