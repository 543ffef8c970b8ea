import type { Redis } from "ioredis";
import type { Logger } from "pino";
import type { Bucket, Counted, Limiter } from "../domain/accounts/rate-limits/limiter.ts";
import {
  createMemoryWindows,
  latestClose,
  type Usage,
  type Windows,
} from "../domain/accounts/rate-limits/memory-windows.ts";
import { within } from "./within.ts";

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
const createRedisWindows = (
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

/** Redis counts as unavailable after this time without an answer, in ms. */
const ANSWER_MAX_MS = 500;
/** Interval between two checks whether it is available again, in ms. */
const CHECK_EVERY_MS = 1_000;
const PROBE = { bucket: { name: "probe", points: 1, seconds: 10 }, key: "" };

type Shared = Windows & { isReady(): boolean };
/**
 * Queries the shared windows or those of this process; `onLate` receives a late answer of the shared ones.
 */
type Ask = <T>(
  question: (windows: Windows) => Promise<T>,
  onLate?: (answer: T) => Promise<unknown>,
) => Promise<T>;

/**
 * Uses `shared` as long as it answers, else `own` with the same limits. Only requests in progress when it
 * fails wait for it, half a second; after that it is not asked until a periodic check gets an answer.
 */
const createAsk = (shared: Shared, own: Windows, log?: Logger): Ask => {
  let isAway = false;
  let lookAtMs = 0;

  const leave = (err: unknown): void => {
    if (!isAway) log?.warn({ err }, "Redis does not answer: limits are counted in each process by itself");
    isAway = true;
    lookAtMs = performance.now() + CHECK_EVERY_MS;
  };

  const look = async (): Promise<void> => {
    lookAtMs = Infinity;
    try {
      if (!shared.isReady()) throw new Error("not connected");
      await within(ANSWER_MAX_MS, shared.consume([PROBE]));
      isAway = false;
      log?.info("Redis answers again: limits are counted over all processes");
    } catch (err) {
      leave(err);
    }
  };

  return async (question, onLate = async () => undefined) => {
    if (isAway && performance.now() >= lookAtMs) void look();
    if (isAway) return question(own);
    let asked: ReturnType<typeof question> | undefined;
    try {
      if (!shared.isReady()) throw new Error("not connected");
      asked = question(shared);
      return await within(ANSWER_MAX_MS, asked);
    } catch (err) {
      leave(err);
      // Points that are not known to have been returned stay counted.
      asked?.then(onLate).catch(() => undefined);
      return question(own);
    }
  };
};

const withFallback = (shared: Shared, own: Windows, log?: Logger): Windows => {
  const ask = createAsk(shared, own, log);

  return {
    /** Takes back what a late answer has counted, because it was counted in this process too. */
    consume: (counts) =>
      ask(
        (windows) => windows.consume(counts),
        (usages) =>
          Promise.all(usages.map(({ closesInMs }, i) => shared.takeBack({ ...counts[i]!, closesInMs }))),
      ),
    /** If this process has counted the key itself, the point is in its own window. */
    takeBack: async (taken) => {
      const counted = await own.read(taken.bucket, taken.key);
      if (counted && counted.used > 0) await own.takeBack(taken);
      else await ask((windows) => windows.takeBack(taken));
    },
    read: (bucket, key) => ask((windows) => windows.read(bucket, key)),
    reset: async (bucket, key) => {
      // Resets what was counted during an outage too.
      await own.reset(bucket, key);
      await ask((windows) => windows.reset(bucket, key));
    },
  };
};

const stateOf = ({ points, seconds }: Bucket, usage: Usage | undefined): Counted => {
  // A reset may have come before points that are taken back.
  const used = Math.max(0, usage?.used ?? 0);
  return {
    isAllowed: used <= points,
    used,
    limit: points,
    remaining: Math.max(0, points - used),
    windowSeconds: seconds,
    resetAtMs: Date.now() + (usage?.closesInMs ?? seconds * 1_000),
  };
};

/**
 * Creates a limiter that counts in Redis, exactly over all processes; while Redis is unavailable, in this
 * process with the same limits. Without `redis`, in this process alone.
 */
export const createLimiter = (redis?: Redis, namespace = "", log?: Logger): Limiter => {
  const own = createMemoryWindows();
  const windows = redis === undefined ? own : withFallback(createRedisWindows(redis, namespace), own, log);
  const consumeInTurn: Limiter["consumeInTurn"] = async (counts) => {
    if (counts.length === 0) return [];
    const usages = await windows.consume(counts);
    return usages.map((usage, index) => stateOf(counts[index]!.bucket, usage));
  };
  return {
    consumeInTurn,
    consume: async (bucket, key, points = 1) => {
      const [usage] = await windows.consume([{ bucket, key, points }]);
      return stateOf(bucket, usage);
    },
    giveBack: async (given) => {
      const nowMs = Date.now();
      await Promise.all(
        given.map(({ resetAtMs, ...count }) => windows.takeBack({ ...count, closesInMs: resetAtMs - nowMs })),
      );
    },
    read: async (bucket, key) => stateOf(bucket, await windows.read(bucket, key)),
    reset: (bucket, key) => windows.reset(bucket, key),
  };
};
