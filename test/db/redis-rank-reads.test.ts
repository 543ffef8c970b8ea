import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import * as fc from "fast-check";
import { Redis } from "ioredis";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { RankIndex } from "../../src/domain/leaderboards/rank-index.ts";
import { type PeriodRef, type RankStore, TIES, type Ties } from "../../src/domain/evaluation/boards/ranks.ts";
import { createRedisRanks } from "../../src/platform/redis-ranks.ts";
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
});
