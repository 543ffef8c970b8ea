import type { Redis } from "ioredis";

/** Number of names read per step. */
const STEP = 500;

export type Scanned = { key: string; isHash: boolean };

/** Reads members of a set or names of a hash, `max` at most; in steps, so that Redis is never blocked. */
export const scanNames = async (redis: Redis, { key, isHash }: Scanned, max: number): Promise<string[]> => {
  const names = new Set<string>();
  let cursor = "0";
  do {
    const [next, found] = isHash
      ? await redis.hscan(key, cursor, "COUNT", STEP)
      : await redis.sscan(key, cursor, "COUNT", STEP);
    // A hash is read as alternating names and values.
    for (let i = 0; i < found.length; i += isHash ? 2 : 1) names.add(found[i]!);
    cursor = next;
  } while (cursor !== "0" && names.size < max);
  return [...names].slice(0, max);
};
