import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { initializeRoomCache, type IRoomCache } from "@colyseus/core";
import { Redis } from "ioredis";
import { IndexedRedisDriver } from "../../src/platform/redis-driver.ts";
import { eventually } from "../support/eventually.ts";
import { pluck } from "../support/pluck.ts";

const REDIS_URL = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";

const aRoom = (fields: Partial<IRoomCache> = {}): IRoomCache =>
  initializeRoomCache({
    name: "player",
    roomId: randomUUID(),
    processId: "p1",
    maxClients: 5,
    metadata: { projectId: "a", playerId: randomUUID() },
    ...fields,
  });

describe("the Redis driver of room listings", () => {
  const namespace = `laurel-test-${randomUUID().slice(0, 8)}`;
  let redis: Redis;
  let driver: IndexedRedisDriver;
  const dead = new Set<string>();
  const driverOf = (processId: string): IndexedRedisDriver =>
    new IndexedRedisDriver(redis, {
      namespace,
      ownProcess: () => processId,
      isAlive: async (id) => !dead.has(id),
    });

  before(async () => {
    redis = new Redis(REDIS_URL, { maxRetriesPerRequest: 2, commandTimeout: 1_500 });
    driver = driverOf("p1");
  });
  after(async () => {
    const left = await redis.keys(`${namespace}:*`);
    if (left.length > 0) await redis.del(...left);
    await driver.shutdown();
  });

  it("lets one of many rooms with one id in", async () => {
    const room = aRoom();
    const inserted = await Promise.all(
      ["p1", "p2", "p3", "p4"].map((processId) => driver.insert({ ...room, processId })),
    );
    assert.deepEqual(inserted.filter(Boolean).length, 1);
    const winner = await driver.findOne({ roomId: room.roomId });
    assert.equal(winner.processId, `p${inserted.indexOf(true) + 1}`);
    await driverOf(winner.processId).remove(room.roomId);
    assert.equal(await driver.has(room.roomId), false);
  });

  it("leaves a listing that cannot be taken away in an outage, which ends nothing else", async () => {
    const own = new Redis(REDIS_URL, { lazyConnect: true });
    const away = new IndexedRedisDriver(own, { namespace, ownProcess: () => "p1" });
    own.disconnect();
    assert.equal(await away.remove(randomUUID()), false);
  });

  it("leaves what another process lists under the same id alone", async () => {
    const theirs = aRoom({ processId: "p2", clients: 3 });
    const twin = { ...theirs, processId: "p1", clients: 1 };
    await driver.insert(theirs);
    assert.equal(await driver.insert(twin), false);
    assert.equal(await driver.persist(twin, true), false);
    assert.equal(await driver.persist(twin), false);
    assert.equal(await driver.update(twin, { $inc: { clients: 1 } }), false);
    assert.equal(await driver.remove(twin.roomId), false);
    assert.equal((await driver.findOne({ roomId: theirs.roomId })).clients, 3);
    assert.deepEqual([...(await driver.ownIds())], []);
    assert.deepEqual([...(await driverOf("p2").ownIds())], [theirs.roomId]);
    await driver.clear();
  });

  it("finds no room of a process that is dead, and keeps those of one that lives", async () => {
    const room = aRoom({ processId: "p7" });
    await driver.insert(room);
    await driver.cleanup("p7");
    assert.equal((await driver.findOne({ name: "player", ...room.metadata })).processId, "p7");
    assert.equal(await driver.countOf("a"), 1);
    dead.add("p7");
    assert.equal(await driver.findOne({ name: "player", ...room.metadata }), undefined);
    assert.equal(await driver.has(room.roomId), false);
    assert.equal(await driver.countOf("a"), 0);
    assert.equal(await driver.insert({ ...room, processId: "p1" }), true);
    await driver.clear();
  });

  it("finds rooms by what they are joined with, by name, process and id", async () => {
    const board = (top: number, fields: Partial<IRoomCache> = {}) =>
      aRoom({ name: "leaderboard", metadata: { top, leaderboardKey: "k", projectId: "a" }, ...fields });
    const rooms = [board(10, { locked: true }), board(10), board(20, { processId: "p2" }), aRoom()];
    for (const room of rooms) await driver.insert(room);
    const ids = async (conditions: Record<string, unknown>): Promise<string[]> =>
      (await driver.query(conditions)).map(({ roomId }) => roomId).toSorted();
    const some = (...picks: number[]) => picks.map((i) => rooms[i]!.roomId).toSorted();
    const wanted = { name: "leaderboard", private: false, projectId: "a", leaderboardKey: "k", top: 10 };
    assert.deepEqual(await ids(wanted), some(0, 1));
    assert.deepEqual(await ids({ ...wanted, locked: false }), some(1));
    assert.deepEqual(await ids({ ...wanted, projectId: "b" }), []);
    assert.deepEqual(await ids({ name: "leaderboard" }), some(0, 1, 2));
    assert.deepEqual(await ids({ processId: "p2" }), some(2));
    assert.deepEqual(await ids({}), some(0, 1, 2, 3));
    assert.deepEqual([...(await driver.findByIds([...some(3), "none"])).keys()], some(3));
    assert.equal(await driver.findOne({ ...wanted, top: 11 }), undefined);
    await driver.clear();
    assert.deepEqual(await ids({}), []);
  });

  it("finds rooms of its own process first, and none where a crowd is to have one here", async () => {
    const fields = { name: "chat", metadata: { projectId: "a", channelId: "c" } };
    const theirs = ["p2", "p3"].map((processId) => aRoom({ ...fields, processId, clients: 30 }));
    for (const room of [...theirs, aRoom({ ...fields, locked: true })]) await driver.insert(room);
    const wanted = { name: "chat", locked: false, ...fields.metadata };
    const findHere = () => driver.findOne(wanted, {});
    assert.notEqual((await findHere()).processId, "p1");
    const asked: number[] = [];
    driver.maySpread = async (rooms) => asked.push(rooms.length) > 0;
    assert.equal(await findHere(), undefined);
    assert.deepEqual(asked, [3]);
    // Who was told which room to join joins that one.
    const { roomId } = theirs[0]!;
    assert.equal((await driver.findOne({ roomId })).roomId, roomId);
    assert.deepEqual(asked, [3]);
    await driver.insert(aRoom(fields));
    assert.equal((await findHere()).processId, "p1");
    driver.maySpread = async () => false;
    await driver.clear();
  });

  it("answers many who look for one room or write it at once, each as if alone", async () => {
    const [room, other] = [aRoom(), aRoom({ processId: "p2" })];
    await driver.insert(room);
    const find = ({ metadata }: IRoomCache) => driver.findOne({ name: "player", ...metadata });
    const found = await Promise.all([room, other, room].map(find));
    assert.deepEqual(
      found.map((one) => one?.roomId),
      [room.roomId, undefined, room.roomId],
    );
    const add = (one: IRoomCache) => driver.update(one, { $inc: { clients: 1 } });
    assert.deepEqual(await Promise.all([room, other, room, room].map(add)), [true, false, true, true]);
    assert.equal((await find(room)).clients, 3);
    await driver.clear();
  });

  it("counts clients, and never brings a removed listing back", async () => {
    const room = aRoom();
    await driver.insert(room);
    assert.equal(await driver.update(room, { $inc: { clients: 2 }, $set: { locked: true } }), true);
    assert.deepEqual(
      await driver.findOne({ roomId: room.roomId }).then(({ clients, locked }) => [clients, locked]),
      [2, true],
    );
    assert.equal(await driver.remove(room.roomId), true);
    assert.equal(await driver.remove(room.roomId), false);
    assert.equal(await driver.update(room, { $inc: { clients: 1 } }), false);
    assert.equal(await driver.persist(room), false);
    assert.equal(await driver.has(room.roomId), false);
    assert.equal(await driver.persist(room, true), true);
    assert.equal((await driver.query({ name: "player", ...room.metadata })).length, 1);
    await driver.clear();
  });

  it("takes the listings of one process away", async () => {
    const rooms = [aRoom(), aRoom(), aRoom({ processId: "p9" })];
    for (const room of rooms) await driver.insert(room);
    await driver.cleanup("p1");
    assert.deepEqual(pluck(await driver.query({}), "roomId"), [rooms[2]!.roomId]);
    await driver.clear();
  });

  it("finds rooms again after the connection was lost", async () => {
    const room = aRoom();
    await driver.insert(room);
    redis.disconnect(true);
    await eventually(
      async () => (await driver.findOne({ name: "player", ...room.metadata })).roomId === room.roomId,
    );
    await driver.clear();
  });
});
