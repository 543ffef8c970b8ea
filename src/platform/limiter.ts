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

/** Redis that has not answered by then counts as away, in ms. */
const ANSWER_MAX_MS = 500;
/** Between two looks whether it is back, in ms. */
const LOOK_EVERY_MS = 1_000;
const PROBE = { bucket: { name: "probe", points: 1, seconds: 10 }, key: "" };

const opposite = (count: Count): Count => ({ ...count, points: -(count.points ?? 1) });
const isTakenBack = ({ points = 1 }: Count): boolean => points < 0;

type Shared = Windows & { isReady(): boolean };
/** Asks the shared windows or those of this process; `onLate` is told what the shared ones said too late. */
type Ask = <T>(
  question: (windows: Windows) => Promise<T>,
  onLate?: (answer: T) => Promise<unknown>,
) => Promise<T>;

/**
 * `shared` as long as it answers, else `own` at the same numbers. Only requests that are under way when it
 * fails wait for it, half a second; then nobody asks it until a look from time to time has had an answer.
 */
const asker = (shared: Shared, own: Windows, log?: Logger): Ask => {
  let isAway = false;
  let lookAtMs = 0;

  const leave = (err: unknown): void => {
    if (!isAway) log?.warn({ err }, "Redis does not answer: limits are counted in each process by itself");
    isAway = true;
    lookAtMs = performance.now() + LOOK_EVERY_MS;
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
      // What is not known to have been undone stays counted.
      asked?.then(onLate).catch(() => undefined);
      return question(own);
    }
  };
};

const insured = (shared: Shared, own: Windows, log?: Logger): Windows => {
  const ask = asker(shared, own, log);

  /** What an answer that came too late has counted was counted in this process, and is taken back. */
  const consume = (counts: readonly Count[]): Promise<Usage[]> =>
    ask(
      (windows) => windows.consume(counts),
      ({ length }) => Promise.all(counts.slice(0, length).map((count) => shared.consume([opposite(count)]))),
    );

  /** Where this process has counted the key by itself, the points are in its own window. */
  const takeBack = async (count: Count): Promise<Usage> => {
    const counted = await own.read(count.bucket, count.key);
    const [usage] = counted && counted.used > 0 ? await own.consume([count]) : await consume([count]);
    return usage!;
  };

  return {
    consume: (counts) => (counts.every(isTakenBack) ? Promise.all(counts.map(takeBack)) : consume(counts)),
    read: (bucket, key) => ask((windows) => windows.read(bucket, key)),
    reset: async (bucket, key) => {
      // What was counted in an outage is part of what is to be forgotten.
      await own.reset(bucket, key);
      await ask((windows) => windows.reset(bucket, key));
    },
  };
};

const stateOf = ({ points, seconds }: Bucket, usage: Usage | undefined): Counted => {
  // Points that are taken back may outlive the window that they were counted in.
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
 * Counts in Redis, exactly over all processes; while Redis is away, in this process at the same numbers.
 * Without `redis`, in this process alone.
 */
export const createLimiter = (redis?: Redis, namespace = "", log?: Logger): Limiter => {
  const own = createMemoryWindows();
  const windows = redis === undefined ? own : insured(createRedisWindows(redis, namespace), own, log);
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
