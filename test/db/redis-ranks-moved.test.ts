import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { joinMoved, type PeriodRef, TIES, type Ties } from "../../src/domain/evaluation/boards/ranks.ts";
import { RankIndex } from "../../src/domain/leaderboards/rank-index.ts";
import { createRedisRanks } from "../../src/platform/redis-ranks.ts";
import { aPlayerId, aTruth, checkMoved, commit } from "../support/leaderboards/ranks.ts";

const REDIS_URL = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";

describe("what has moved in Redis", () => {
  const namespace = `test-${randomUUID()}`;
  const redis = new Redis(REDIS_URL);
  const used: PeriodRef[] = [];
  const aPeriod = (ties: Ties = "EARLIEST"): PeriodRef => {
    used.push({ projectId: randomUUID(), periodId: randomUUID(), ties });
    return used.at(-1)!;
  };
  after(async () => {
    const ranks = createRedisRanks(redis, namespace, aTruth().source);
    for (const { projectId, periodId } of used) await ranks.drop(projectId, periodId);
    redis.disconnect();
  });

  it("is what the index in memory says, and nobody outside of it is moved", async () => {
    for (const ties of TIES) {
      const { truth, source } = aTruth();
      const ranks = createRedisRanks(redis, namespace, source);
      const period = aPeriod(ties);
      for (let n = 0; n < 40; n++) commit(truth.rows, aPlayerId(n), n % 13);
      const index = new RankIndex();
      for (const entry of truth.rows.values()) index.set(entry);
      index.page(0, 1, ties);
      let before = (await ranks.page(period, 0, 1_000)).standings;
      for (let n = 0; n < 60; n++) {
        const one = commit(truth.rows, aPlayerId((n * 7) % 50), (n * 31) % 17, n % 3);
        // Hidden, seen again, repeated, and two at once.
        const entry: EntryChange = n % 5 === 0 ? ([...one.slice(0, 4), true] as unknown as EntryChange) : one;
        const batch = n % 4 === 0 ? [entry, commit(truth.rows, aPlayerId(n % 40), n % 13)] : [entry];
        const { projectId, periodId } = period;
        const moved = await ranks.apply(projectId, periodId, batch);
        assert.equal(await ranks.apply(projectId, periodId, batch), undefined);
        const after = (await ranks.page(period, 0, 1_000)).standings;
        checkMoved([before, after], moved);
        const expected = batch.map((each) => index.set(each)).reduce(joinMoved, undefined);
        assert.deepEqual(moved, expected);
        before = after;
      }
    }
  });
});
