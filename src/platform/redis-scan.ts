import type { Redis } from "ioredis";

/** Read in one step. */
const STEP = 500;

export type Scanned = { key: string; isHash: boolean };

/** Members of a set or names of a hash, `max` at most; step by step, so that Redis is never held up. */
export const scanNames = async (redis: Redis, { key, isHash }: Scanned, max: number): Promise<string[]> => {
  const names = new Set<string>();
  let cursor = "0";
  do {
    const [next, found] = isHash
      ? await redis.hscan(key, cursor, "COUNT", STEP)
      : await redis.sscan(key, cursor, "COUNT", STEP);
    // A hash is read as names and values in turn.
    for (let i = 0; i < found.length; i += isHash ? 2 : 1) names.add(found[i]!);
    cursor = next;
  } while (cursor !== "0" && names.size < max);
  return [...names].slice(0, max);
};
