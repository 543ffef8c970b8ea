import type { Redis } from "ioredis";
import type { Logger } from "pino";
import type { Bucket, Counted, Limiter } from "../domain/accounts/rate-limits/limiter.ts";
import {
  createMemoryWindows,
  type Usage,
  type Windows,
} from "../domain/accounts/rate-limits/memory-windows.ts";
import { createRedisWindows } from "./redis-windows.ts";
import { within } from "./within.ts";

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
