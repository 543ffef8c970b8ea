import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { RankIndex } from "../../src/domain/leaderboards/rank-index.ts";
import { type EntrySource, TIES } from "../../src/domain/evaluation/boards/ranks.ts";
import { createRedisRanks } from "../../src/platform/redis-ranks.ts";

const REDIS_URL = process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379";
const PLAYERS = 60;
const ROUNDS = 600;

const aPlayerId = (n: number): string => `00000000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
const below = (n: number): number => Math.floor(Math.random() * n);

describe("hidden entries of ranks in Redis", () => {
  const namespace = `test-${randomUUID()}`;
  let redis: Redis;
  before(() => {
    redis = new Redis(REDIS_URL);
  });
  after(async () => {
    for await (const keys of redis.scanStream({ match: `{${namespace}:*`, count: 1_000 }))
      if ((keys as string[]).length > 0) await redis.unlink(...(keys as string[]));
    redis.disconnect();
  });

  for (const ties of TIES) {
    it(`have no place with ties ${ties}, come back with a newer version, and by no older one`, async () => {
      const rows = new Map<string, EntryChange>();
      let reads = 0;
      const source: EntrySource = async function* () {
        reads++;
        yield [...rows.values()];
      };
      const ranks = createRedisRanks(redis, namespace, source);
      const period = { projectId: randomUUID(), periodId: randomUUID(), ties };
      const apply = (entries: EntryChange[]) => ranks.apply(period.projectId, period.periodId, entries);
      const old: EntryChange[] = [];
      for (let i = 0; i < ROUNDS; i++) {
        const playerId = aPlayerId(below(PLAYERS));
        const known = rows.get(playerId);
        if (known) old.push(known);
        const entry: EntryChange = [playerId, below(9), below(3), (known?.[3] ?? 0) + 1, below(3) === 0];
        rows.set(playerId, entry);
        const late = old.length > 0 ? [old[below(old.length)]!] : [];
        await apply([entry, ...late]);
        // The first read builds it, with hidden ones among the rows; one in the middle builds it anew.
        if (i === 50) await ranks.page(period, 0, 1);
        if (i === 300) await ranks.rebuild(period);
      }
      const expected = new RankIndex();
      for (const entry of rows.values()) expected.set(entry);
      assert.deepEqual(await ranks.page(period, 0, PLAYERS), expected.page(0, PLAYERS, ties));
      for (const [playerId, [, , , , isHidden]] of rows) {
        const standing = await ranks.standing(period, playerId);
        assert.deepEqual(standing, expected.standing(playerId, ties));
        assert.equal(standing === undefined, isHidden);
      }
      assert.equal(reads, 2, "hidden entries do not look like a part that was lost");
    });
  }
});
