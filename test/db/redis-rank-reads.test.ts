import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import * as fc from "fast-check";
import { Redis } from "ioredis";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { RankIndex } from "../../src/domain/leaderboards/rank-index.ts";
import {
  FROZEN_COPIES_MAX,
  FROZEN_MAX,
  type PeriodRef,
  type RankStore,
  TIES,
  type Ties,
} from "../../src/domain/evaluation/boards/ranks.ts";
import { createRedisRanks } from "../../src/platform/redis-ranks.ts";
import { eventually } from "../support/eventually.ts";
import { cases } from "../support/properties.ts";

const REDIS_URL = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";
const aPlayerId = (n: number): string => `00000000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;

describe("reads of ranks in Redis", () => {
  const namespace = `test-${randomUUID()}`;
  const redis = new Redis(REDIS_URL);
  const truth = new Map<string, EntryChange[]>();
  const store = (): RankStore =>
    createRedisRanks(redis, namespace, async function* (_projectId, periodId) {
      yield truth.get(periodId) ?? [];
    });
  const aBoard = (ties: Ties, entries: EntryChange[], projectId = randomUUID()): PeriodRef => {
    const ref = { projectId, periodId: randomUUID(), ties };
    truth.set(ref.periodId, entries);
    return ref;
  };
  const indexOf = (entries: readonly EntryChange[]): RankIndex => {
    const index = new RankIndex();
    for (const entry of entries) index.set(entry);
    return index;
  };
  /** Our own keys only, at once, as when Redis comes back empty. */
  const lose = (): Promise<unknown> =>
    redis.eval(
      "for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('UNLINK', key) end",
      0,
      `{${namespace}:`,
    );
  after(async () => {
    await lose();
    redis.disconnect();
  });

  const entries = fc
    .uniqueArray(fc.tuple(fc.nat(60), fc.integer({ min: -3, max: 3 }), fc.integer({ min: -2, max: 2 })), {
      selector: ([n]) => n,
      maxLength: 50,
    })
    .map((all) => all.map(([n, score, tie]): EntryChange => [aPlayerId(n), score, tie, 1]));

  for (const ties of TIES) {
    it(`are those of the index in memory with ties ${ties}, also after a place and of a copy`, async () => {
      const ranks = store();
      await fc.assert(
        fc.asyncProperty(entries, fc.nat(60), fc.nat(5), async (all, n, skip) => {
          const [ref, index] = [aBoard(ties, all), indexOf(all)];
          const ids = all.map(([playerId]) => playerId);
          const standings = await ranks.standings(ref, [...ids, aPlayerId(99)]);
          assert.deepEqual(
            standings,
            ids.map((playerId) => index.standing(playerId, ties)),
          );
          // A place that may be taken, or nobody's.
          const place = { playerId: aPlayerId(n), rankScore: (n % 7) - 3, rankTie: (n % 5) - 2 };
          const range = { skip, limit: 4 };
          assert.deepEqual(await ranks.after(ref, place, range), index.after(place, range, ties));
          const token = await ranks.freeze(ref, new Date());
          const copied = index.page(0, 100, ties);
          await ranks.apply(ref.projectId, ref.periodId, [[aPlayerId(98), -9, 0, 1]]);
          const read = { now: new Date(), offset: skip, limit: 7 };
          assert.deepEqual(await ranks.frozen(ref, token, read), {
            standings: copied.standings.slice(skip, skip + 7),
            total: all.length,
          });
        }),
        { numRuns: cases(25), endOnFailure: true },
      );
    });
  }

  it("share a copy among readers of a moment, and end the oldest of a project's too many", async () => {
    const [ranks, projectId] = [store(), randomUUID()];
    const board = aBoard("EARLIEST", [[aPlayerId(1), 1, 0, 1]], projectId);
    const tokens = await Promise.all(Array.from({ length: 10 }, () => ranks.freeze(board, new Date())));
    assert.equal(new Set(tokens).size, 1);
    const read = (ref: PeriodRef, token: string) =>
      ranks.frozen(ref, token, { now: new Date(), offset: 0, limit: 1 });
    const startMs = Date.now();
    for (let i = 1; i <= FROZEN_COPIES_MAX; i++) {
      assert.ok(await read(board, tokens[0]!), `gone after ${i - 1} others`);
      await ranks.freeze(aBoard("EARLIEST", [[aPlayerId(1), 1, 0, 1]], projectId), new Date(startMs + i));
    }
    await eventually(async () => (await read(board, tokens[0]!)) === undefined);
    const stranger = aBoard("EARLIEST", []);
    assert.equal(await read(stranger, tokens[0]!), undefined);
  });

  it("hold the first places in a copy and are the same when Redis comes back empty", async () => {
    const many = Array.from({ length: FROZEN_MAX + 5 }, (_, i): EntryChange => [aPlayerId(i), i >> 1, 0, 1]);
    const [ranks, ref] = [store(), aBoard("DENSE", many)];
    const token = await ranks.freeze(ref, new Date());
    const last = await ranks.frozen(ref, token, { now: new Date(), offset: FROZEN_MAX - 1, limit: 9 });
    assert.deepEqual(
      [last!.standings.length, last!.standings[0]!.rank, last!.total],
      [1, FROZEN_MAX / 2, FROZEN_MAX + 5],
    );
    const before = await ranks.page(ref, 5_000, 50);
    await lose();
    assert.deepEqual(await ranks.page(ref, 5_000, 50), before);
    assert.equal(await ranks.frozen(ref, token, { now: new Date(), offset: 0, limit: 1 }), undefined);
  });
});
