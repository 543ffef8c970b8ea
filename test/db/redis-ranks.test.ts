import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { sql } from "kysely";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { RankIndex } from "../../src/domain/leaderboards/rank-index.ts";
import { type PeriodRef, TIES, type Ties } from "../../src/domain/evaluation/boards/ranks.ts";
import { createRedisRanks, followDatabase, readQueuePlace } from "../../src/platform/redis-ranks.ts";
import { eventually } from "../support/eventually.ts";
import { aPlayerId, aTruth, commit } from "../support/leaderboards/ranks.ts";
import { postgresDomain } from "../support/processes/services.ts";

const REDIS_URL = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";

const expectedOf = (rows: Map<string, EntryChange>, ties: Ties) => {
  const index = new RankIndex();
  for (const entry of rows.values()) index.set(entry);
  return index.page(0, 100_000, ties);
};

describe("ranks in Redis", () => {
  const namespace = `test-${randomUUID()}`;
  const server = postgresDomain(1);
  const connections: Redis[] = [];
  let redis: Redis;

  const connect = (): Redis => {
    const connection = new Redis(REDIS_URL);
    connections.push(connection);
    return connection;
  };
  const ownKeys = async (): Promise<string[]> => {
    const keys: string[] = [];
    for await (const page of redis.scanStream({ match: `{${namespace}:*`, count: 1_000 }))
      keys.push(...(page as string[]));
    return keys;
  };
  /** What a restart without persistence would do, to our own keys only and at once. */
  const lose = async (prefix = `{${namespace}:`): Promise<void> => {
    const lua = "for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('UNLINK', key) end";
    await redis.eval(lua, 0, prefix);
  };
  const aPeriod = (ties: Ties = "EARLIEST"): PeriodRef => ({
    projectId: randomUUID(),
    periodId: randomUUID(),
    ties,
  });

  before(() => {
    redis = connect();
  });
  after(async () => {
    await lose();
    for (const connection of connections) connection.disconnect();
  });

  it("is emptied where the database has gone back, alone", async () => {
    const { truth, source } = aTruth();
    const ranks = createRedisRanks(redis, namespace, source);
    const [period, player] = [aPeriod(), aPlayerId(1)];
    const score = async () => (await ranks.page(period, 0, 1)).standings[0]!.rankScore;
    const db = server.database.em.fork().getKysely();
    const follow = (more = {}) =>
      followDatabase(redis, namespace, async () => ({ ...(await readQueuePlace(server.database)), ...more }));
    const numbers = sql<{ seq: number }>`
      select nextval('outbox_q_seq_seq') as seq from generate_series(1, 9)`;
    const seq = (await numbers.execute(db)).rows.at(-1)!.seq;
    await ranks.reached(seq);
    await ranks.reached(seq - 5);

    truth.rows.set(player, [player, 7, 0, 2]);
    assert.equal(await score(), 7);
    assert.deepEqual([await follow(), await score()], [false, 7]);
    truth.rows.set(player, [player, 5, 0, 1]);
    await sql`select setval('outbox_q_seq_seq', ${seq - 1})`.execute(db);
    assert.deepEqual([await follow(), await score()], [true, 5]);
    assert.equal(await follow(), false);

    await ranks.reached(seq);
    assert.equal(await follow({ seq: seq + 31 }), false);
    assert.equal(await follow({ seq: seq + 32, server: "recovered" }), false);
    assert.equal(await follow({ seq: seq + 31, server: "restored" }), true);
    await lose(namespace);
    assert.equal(await follow({ seq: 0, mayBeHigh: true, server: "new" }), false);
    await lose(namespace);
  });

  it("builds once for all readers of a process, and answers 503 in the others meanwhile", async () => {
    const { truth, source } = aTruth();
    const { promise: held, resolve: open } = Promise.withResolvers<void>();
    commit(truth.rows, aPlayerId(1), 1);
    truth.beforePage = () => held;
    const here = createRedisRanks(redis, namespace, source);
    const elsewhere = createRedisRanks(connect(), namespace, source);
    const period = aPeriod();
    const reads = [here.page(period, 0, 5), here.page(period, 0, 5), here.standing(period, aPlayerId(1))];
    await eventually(() => truth.reads === 1);
    await assert.rejects(
      elsewhere.page(period, 0, 5),
      (error) =>
        error instanceof DomainError && error.code === "SERVICE_UNAVAILABLE" && error.retryAfterSeconds === 1,
    );
    open();
    await Promise.all(reads);
    assert.equal((await elsewhere.page(period, 0, 5)).total, 1);
    assert.equal(truth.reads, 1);
  });

  it("gives a build up when another took its lease, and does not harm the other", async () => {
    const { truth, source } = aTruth();
    const { promise: held, resolve: open } = Promise.withResolvers<void>();
    commit(truth.rows, aPlayerId(1), 1);
    truth.beforePage = () => held;
    const slow = createRedisRanks(redis, namespace, source);
    const period = aPeriod();
    const read = slow.page(period, 0, 5);
    await eventually(() => truth.reads === 1);
    await redis.del(`{${namespace}:rank:${period.projectId}:${period.periodId}}:next`);
    truth.beforePage = async () => undefined;
    const other = createRedisRanks(connect(), namespace, source);
    assert.equal((await other.page(period, 0, 5)).total, 1);
    open();
    // The one that lost its lease may answer from the other's build or ask to come again.
    await read.catch((error: unknown) => assert.equal((error as DomainError).code, "SERVICE_UNAVAILABLE"));
    assert.equal((await slow.page(period, 0, 5)).total, 1);
  });

  it("builds anew when Redis has evicted a part", async () => {
    const { truth, source } = aTruth();
    for (let i = 0; i < 30; i++) commit(truth.rows, aPlayerId(i), i % 7);
    const ranks = createRedisRanks(redis, namespace, source);
    const period = aPeriod("DENSE");
    for (const part of [":z", ":h", ":d", ":c"]) {
      await ranks.page(period, 0, 1);
      const keys = (await ownKeys()).filter((key) => key.includes(period.periodId) && key.endsWith(part));
      assert.equal(keys.length, 1);
      await redis.unlink(...keys);
      assert.deepEqual(await ranks.page(period, 0, 100), expectedOf(truth.rows, "DENSE"));
    }
  });

  it("forgets a list that nobody has scored in after a while, and keeps it once somebody has", async () => {
    const { truth, source } = aTruth();
    const ranks = createRedisRanks(redis, namespace, source);
    const period = aPeriod();
    await ranks.page(period, 0, 1);
    const named = async () => (await ownKeys()).filter((key) => key.includes(period.periodId));
    const [pointer] = await named();
    assert.ok((await redis.pttl(pointer!)) > 0);
    commit(truth.rows, aPlayerId(1), 1);
    await ranks.apply(period.projectId, period.periodId, [...truth.rows.values()]);
    for (const key of await named()) assert.equal(await redis.pttl(key), -1, key);
    assert.deepEqual(await ranks.page(period, 0, 100), expectedOf(truth.rows, period.ties));
  });

  it("equals the truth after random writes from two processes amid rebuilds and losses", async () => {
    for (const ties of TIES) {
      const { truth, source } = aTruth();
      const period = aPeriod(ties);
      const stores = [
        createRedisRanks(redis, namespace, source),
        createRedisRanks(connect(), namespace, source),
      ];
      const random = (n: number): number => Math.floor(Math.random() * n);
      const key = `{${namespace}:rank:${period.projectId}:${period.periodId}}`;
      const writers = Array.from({ length: 4 }, async (_, w) => {
        for (let i = 0; i < 60; i++) {
          const changes = Array.from({ length: 25 }, () =>
            commit(truth.rows, aPlayerId(random(600)), random(40), random(5)),
          );
          // Two relays may send in either order, and twice.
          const sent = Math.random() < 0.2 ? [...changes, ...changes.toReversed()] : changes;
          await stores[w % 2]!.apply(period.projectId, period.periodId, sent);
          if (random(10) === 0) await stores[w % 2]!.page(period, random(600), 10).catch(isUnavailable);
        }
      });
      const rebuilds = stores.map(async (ranks) => {
        for (let i = 0; i < 6; i++) await ranks.rebuild(period);
      });
      const losses = (async () => {
        for (let i = 0; i < 3; i++) {
          await stores[0]!.page(period, 0, 1).catch(isUnavailable);
          await lose(key);
        }
      })();
      await Promise.all([...writers, losses, ...rebuilds.map((rebuild) => rebuild.catch(isUnavailable))]);
      const page = await eventually(() => stores[0]!.page(period, 0, 10_000));
      assert.deepEqual(page, expectedOf(truth.rows, ties));
      const live = (await ownKeys()).filter((name) => name.startsWith(key) && !name.endsWith(":cur"));
      assert.ok(live.length <= 4, `keys of dead generations: ${live.join(" ")}`);
    }
  });
});

const isUnavailable = (error: unknown): void =>
  assert.ok(error instanceof DomainError && error.code === "SERVICE_UNAVAILABLE", String(error));
