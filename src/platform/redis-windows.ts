import type { Redis } from "ioredis";
import { latestClose, type Usage, type Windows } from "../domain/accounts/rate-limits/memory-windows.ts";

/**
 * ARGV: for each key the points to add, the limit, the seconds of a window and the number of its question.
 * The rest of a question is not counted once one of its limits is exceeded. Returns used and ms for each key;
 * ms are -1 for one that was not counted.
 */
const CONSUME = `
local out = {}
local passed
for i, key in ipairs(KEYS) do
  local points, limit, seconds, question = unpack(ARGV, 4 * i - 3, 4 * i)
  local used, left = 0, -1
  if question ~= passed then
    used = redis.call('incrby', key, points)
    left = redis.call('pttl', key)
    if left < 0 then
      redis.call('expire', key, seconds)
      left = tonumber(seconds) * 1000
    end
    if used > tonumber(limit) then passed = question end
  end
  out[2 * i - 1] = used
  out[2 * i] = left
end
return out`;

/** ARGV: the ms that the window has left at most, for it to be the one that is meant. */
const TAKE_BACK = `
local left = redis.call('pttl', KEYS[1])
if left >= 0 and left <= tonumber(ARGV[1]) then redis.call('decr', KEYS[1]) end
return left`;

/** Questions per call, so that none blocks Redis. */
const QUESTIONS_MAX = 100;

type Scripted = Redis & {
  laurelConsume(keys: number, ...args: (string | number)[]): Promise<number[]>;
  laurelTakeBack(keys: number, key: string, latestMs: number): Promise<number>;
};

type Question = {
  keys: readonly string[];
  values: readonly (readonly [points: number, limit: number, seconds: number])[];
};
type PendingQuestion = Question & { resolve(usages: Usage[]): void; reject(error: unknown): void };

/**
 * Batches the questions of one iteration of the event loop: simultaneous requests then cost one command
 * instead of one each.
 */
const gather = (redis: Scripted): ((question: Question) => Promise<Usage[]>) => {
  let waiting: PendingQuestion[] = [];

  const ask = async (asked: readonly PendingQuestion[]): Promise<void> => {
    const keys = asked.flatMap((one) => one.keys);
    const values = asked.flatMap((one, n) => one.values.flatMap((value) => [...value, n]));
    try {
      const flat = await redis.laurelConsume(keys.length, ...keys, ...values);
      let at = 0;
      for (const one of asked) {
        const own = one.keys.map((_, i) => ({ used: flat[at + 2 * i]!, closesInMs: flat[at + 2 * i + 1]! }));
        one.resolve(own.filter(({ closesInMs }) => closesInMs >= 0));
        at += 2 * own.length;
      }
    } catch (error) {
      for (const { reject } of asked) reject(error);
    }
  };

  const flush = (): void => {
    const all = waiting;
    waiting = [];
    for (let from = 0; from < all.length; from += QUESTIONS_MAX)
      void ask(all.slice(from, from + QUESTIONS_MAX));
  };

  return (question) =>
    new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(flush);
      waiting.push({ ...question, resolve, reject });
    });
};

/**
 * Windows in Redis, shared by all processes of a namespace: a counter each, which expires with its window.
 */
export const createRedisWindows = (
  redis: Redis,
  namespace: string,
): Windows & {
  /** Whether there is a connection; without one a question would wait for it. */
  isReady(): boolean;
} => {
  redis.defineCommand("laurelConsume", { lua: CONSUME });
  redis.defineCommand("laurelTakeBack", { lua: TAKE_BACK });
  const ask = gather(redis as Scripted);
  const keyOf = (name: string, key: string): string => `${namespace}:limit:${name}:${key}`;
  return {
    isReady: () => redis.status === "ready",
    consume: (counts) =>
      ask({
        keys: counts.map(({ bucket, key }) => keyOf(bucket.name, key)),
        values: counts.map(({ bucket, points = 1 }) => [points, bucket.points, bucket.seconds]),
      }),
    takeBack: async (taken) => {
      const key = keyOf(taken.bucket.name, taken.key);
      await (redis as Scripted).laurelTakeBack(1, key, latestClose(taken));
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
