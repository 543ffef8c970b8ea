import type { Redis } from "ioredis";
import type { Windows } from "../domain/rate-limits/memory-windows.ts";

/** ARGV: for each key the points to add, the limit, the seconds of a window. Answers used, ms, used, ms. */
const CONSUME = `
local out = {}
for i, key in ipairs(KEYS) do
  local points, limit, seconds = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), ARGV[3 * i]
  local used = redis.call('incrby', key, points)
  local left = redis.call('pttl', key)
  if left < 0 then
    redis.call('expire', key, seconds)
    left = tonumber(seconds) * 1000
  end
  out[#out + 1] = used
  out[#out + 1] = left
  if used > limit then break end
end
return out`;

/**
 * Holds writes back until all that came in the same turn of the event loop has been seen: counts of many
 * clients then cost one write and not one each.
 */
const holdWrites = (redis: Redis): (() => void) => {
  let isHeld = false;
  return () => {
    const { stream } = redis;
    if (isHeld || !stream) return;
    isHeld = true;
    stream.cork();
    setImmediate(() => {
      isHeld = false;
      stream.uncork();
    });
  };
};

type Scripted = Redis & { laurelConsume(keys: number, ...args: (string | number)[]): Promise<number[]> };

/** Windows in Redis, one for all processes of a namespace: a counter each, which ends with its window. */
export const createRedisWindows = (
  redis: Redis,
  namespace: string,
): Windows & {
  /** Whether there is a connection to ask; a question without one would wait for it. */
  isReady(): boolean;
} => {
  redis.defineCommand("laurelConsume", { lua: CONSUME });
  const hold = holdWrites(redis);
  const keyOf = (name: string, key: string): string => `${namespace}:limit:${name}:${key}`;
  return {
    isReady: () => redis.status === "ready",
    consume: async (counts) => {
      const keys = counts.map(({ bucket, key }) => keyOf(bucket.name, key));
      const values = counts.flatMap(({ bucket, points = 1 }) => [points, bucket.points, bucket.seconds]);
      hold();
      const flat = await (redis as Scripted).laurelConsume(keys.length, ...keys, ...values);
      return Array.from({ length: flat.length / 2 }, (_, index) => ({
        used: flat[2 * index] ?? 0,
        closesInMs: flat[2 * index + 1] ?? 0,
      }));
    },
    read: async ({ name }, key) => {
      const [used, closesInMs] = await Promise.all([
        redis.get(keyOf(name, key)),
        redis.pttl(keyOf(name, key)),
      ]);
      return used === null || closesInMs < 0 ? undefined : { used: Number(used), closesInMs };
    },
    reset: async ({ name }, key) => void (await redis.del(keyOf(name, key))),
  };
};
