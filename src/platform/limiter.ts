import type { Redis } from "ioredis";
import type { Logger } from "pino";
import type { Bucket, Count, Counted, Limiter } from "../domain/accounts/rate-limits/limiter.ts";
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

const opposite = (count: Count): Count => ({ ...count, points: -(count.points ?? 1) });
const isTakenBack = ({ points = 1 }: Count): boolean => points < 0;

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

  /**
   * Takes back what a late answer has counted, because it was counted in this process too. What it has given
   * back stays given back.
   */
  const consume = (counts: readonly Count[]): Promise<Usage[]> =>
    ask(
      (windows) => windows.consume(counts),
      ({ length }) => {
        const late = counts.slice(0, length).filter((count) => !isTakenBack(count));
        return Promise.all(late.map((count) => shared.consume([opposite(count)])));
      },
    );

  /** If this process has counted the key itself, the points are in its own window. */
  const takeBack = async (count: Count): Promise<Usage> => {
    const counted = await own.read(count.bucket, count.key);
    const [usage] = counted && counted.used > 0 ? await own.consume([count]) : await consume([count]);
    return usage!;
  };

  return {
    consume: (counts) => (counts.every(isTakenBack) ? Promise.all(counts.map(takeBack)) : consume(counts)),
    read: (bucket, key) => ask((windows) => windows.read(bucket, key)),
    reset: async (bucket, key) => {
      // Resets what was counted during an outage too.
      await own.reset(bucket, key);
      await ask((windows) => windows.reset(bucket, key));
    },
  };
};

const stateOf = ({ points, seconds }: Bucket, usage: Usage | undefined): Counted => {
  // Points that are taken back may outlive the window in which they were counted.
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
    read: async (bucket, key) => stateOf(bucket, await windows.read(bucket, key)),
    reset: (bucket, key) => windows.reset(bucket, key),
  };
};
