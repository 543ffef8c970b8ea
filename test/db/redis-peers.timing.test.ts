import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { pino } from "pino";
import { LEASE_MS } from "../../src/domain/kernel/live-rooms.ts";
import { RedisPeers } from "../../src/platform/redis-peers.ts";
import { eventually } from "../support/eventually.ts";

const REDIS_URL = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";
const log = pino({ level: "silent" });

type Member = { peers: RedisPeers; redis: Redis; dead: string[]; lost: () => number };

describe("the registry of processes that hold rooms", () => {
  const namespace = `laurel-test-${randomUUID().slice(0, 8)}`;
  const members: Member[] = [];

  const start = async (processId: string): Promise<Member> => {
    const redis = new Redis(REDIS_URL);
    const peers = new RedisPeers(redis, {
      namespace,
      log,
      subscriptions: { resubscribeAll: () => undefined, onReplaced: () => undefined },
    });
    const dead: string[] = [];
    let lost = 0;
    await peers.join({
      processId,
      internalAddress: `127.0.0.1:${processId.length}`,
      onLost: () => lost++,
      onDead: async (id) => void dead.push(id),
    });
    const member = { peers, redis, dead, lost: () => lost };
    members.push(member);
    return member;
  };

  after(async () => {
    const redis = new Redis(REDIS_URL);
    const left = await redis.keys(`${namespace}:*`);
    if (left.length > 0) await redis.del(...left);
    redis.disconnect();
    for (const { peers } of members) peers.close();
  });

  it("knows the doors of those that live, and tells one of the others when one has died", async () => {
    const [a, b, c] = [await start("a"), await start("bb"), await start("ccc")];
    assert.deepEqual(await Promise.all(["a", "bb", "ccc", "d"].map((id) => a.peers.internalAddressOf(id))), [
      "127.0.0.1:1",
      "127.0.0.1:2",
      "127.0.0.1:3",
      undefined,
    ]);
    await b.peers.countSockets("player", 7);
    assert.equal(await a.peers.countSockets("player", 2), 9);

    // Dead without a word: the timer goes with the connection.
    b.peers.close();
    const told = () => [...a.dead, ...c.dead];
    await eventually(() => told().length > 0, { timeoutMs: 3 * LEASE_MS });
    assert.deepEqual(told(), ["bb"]);
    await eventually(async () => (await a.peers.internalAddressOf("bb")) === undefined);
    assert.equal(await a.peers.isAlive("bb"), false);
    assert.equal(await a.peers.countSockets("player", 2), 2);
    assert.equal(await a.peers.countSockets("player", 0), 0);

    await c.peers.leave();
    await eventually(async () => (await a.peers.internalAddressOf("ccc")) === undefined);
    assert.equal(a.lost(), 0);
  });

  it("follows nothing any more for a process that leaves while it joins", async () => {
    const redis = new Redis(REDIS_URL);
    let followed = 0;
    const subscriptions = { resubscribeAll: () => undefined, onReplaced: () => void followed++ };
    const peers = new RedisPeers(redis, { namespace, log, subscriptions });
    try {
      const self = {
        processId: "f",
        internalAddress: "127.0.0.1:6",
        onLost: () => undefined,
        onDead: async () => {},
      };
      await Promise.all([peers.join(self), peers.leave()]);
      assert.equal(followed, 0);
      assert.equal(await peers.internalAddressOf("f"), undefined);
    } finally {
      peers.close();
    }
  });

  it("tells a process that its lease was lost", async () => {
    const { lost, redis } = await start("e");
    await redis.del(`${namespace}:processes:leases`);
    await eventually(() => lost() === 1);
  });

  it("takes a process without listeners for dead before its lease has ended", async () => {
    const { peers, redis } = await start("ffff");
    assert.notEqual(await peers.internalAddressOf("ffff"), undefined);
    assert.equal(await peers.isAlive("ffff"), false);
    const ear = redis.duplicate();
    await ear.subscribe("p:ffff");
    assert.equal(await peers.isAlive("ffff"), true);
    ear.disconnect();
    await eventually(async () => !(await peers.isAlive("ffff")));
  });
});
