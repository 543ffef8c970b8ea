import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { createRedisRanks } from "../../src/platform/redis-ranks.ts";

/** Updates of a batch, and batches under way at a time. */
const BATCH = 200;
const AT_ONCE = 4;
const UPDATES = 20_000;

/** Updates a second, each with the rank after it. */
export type RankPace = {
  /** By the rank index, in batches as the relay does. */
  laurel: number;
  /** ZADD and ZREVRANK alone, as many in a script call. */
  batched: number;
  /** The same with one in a call, pipelined. */
  single: number;
};

/** Every update: member and score. */
const FLOOR = `
local ranks = {}
for i = 1, #ARGV, 2 do
  redis.call('ZADD', KEYS[1], ARGV[i + 1], ARGV[i])
  ranks[#ranks + 1] = redis.call('ZREVRANK', KEYS[1], ARGV[i])
end
return ranks`;

export const playerIdOf = (n: number): string =>
  `00000000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;

const scoreOf = (n: number): number => (n * 7_919) % 1_000_003;

/** The n-th update: whose, and what the score is then. */
const updateOf = (n: number, size: number): { n: number; score: number } => ({
  n: (n * 104_729) % size,
  score: (n * 15_485_863) % 1_000_003,
});

type Run = (from: number) => Promise<unknown>;

/** Runs all updates in batches of `count`, some at a time. */
const paceOf = async (run: Run, count: number, atOnce: number): Promise<number> => {
  let next = 0;
  const startMs = performance.now();
  const lane = async (): Promise<void> => {
    while (next < UPDATES) {
      const from = next;
      next += count;
      await run(from);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  return UPDATES / ((performance.now() - startMs) / 1_000);
};

/** How fast a board of `size` members takes updates and says their ranks, against Redis with nothing else. */
export const rankPace = async (env: Record<string, string>, size: number): Promise<RankPace> => {
  const namespace = `${env["REDIS_NAMESPACE"]}:floor-${randomUUID()}`;
  const redis = new Redis(env["REDIS_URL"]!);
  const ranks = createRedisRanks(redis, namespace, async function* () {
    for (let from = 0; from < size; from += 1_000)
      yield Array.from({ length: Math.min(1_000, size - from) }, (_, i): EntryChange => [
        playerIdOf(from + i),
        0 - scoreOf(from + i),
        0,
        1,
      ]);
  });
  const ref = { projectId: randomUUID(), periodId: randomUUID(), ties: "EARLIEST" as const };
  const key = `${namespace}:bare`;
  for (let from = 0; from < size; from += 1_000) {
    const many = Array.from({ length: Math.min(1_000, size - from) }, (_, i) => from + i);
    await redis.zadd(key, ...many.flatMap((n) => [scoreOf(n), playerIdOf(n)]));
  }
  await ranks.page(ref, 0, 1);
  const batchFrom = (from: number, count: number) =>
    Array.from({ length: count }, (_, i) => updateOf(from + i, size));
  const bare = (count: number) => (from: number) =>
    redis.eval(FLOOR, 1, key, ...batchFrom(from, count).flatMap(({ n, score }) => [playerIdOf(n), score]));
  const ours = async (from: number): Promise<void> => {
    const batch = batchFrom(from, BATCH);
    const entries = batch.map(({ n, score }, i): EntryChange => [playerIdOf(n), 0 - score, 0, 2 + from + i]);
    await ranks.apply(ref.projectId, ref.periodId, entries);
    const found = await ranks.standings(
      ref,
      batch.map(({ n }) => playerIdOf(n)),
    );
    if (found.length !== BATCH) throw new Error(`${found.length} of ${BATCH} have a rank`);
  };
  const laurel = await paceOf(ours, BATCH, AT_ONCE);
  const batched = await paceOf(bare(BATCH), BATCH, AT_ONCE);
  const single = await paceOf(bare(1), 1, BATCH);
  await ranks.drop(ref.projectId, ref.periodId);
  await redis.unlink(key);
  redis.disconnect();
  return { laurel, batched, single };
};
