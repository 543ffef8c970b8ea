import type { Redis } from "ioredis";
import {
  type RateLimiterAbstract,
  RateLimiterMemory,
  RateLimiterRedis,
  RateLimiterRes,
} from "rate-limiter-flexible";
import type { Bucket, Limiter, LimitState } from "../domain/rate-limits/limiter.ts";

const stateOf = ({ points, seconds }: Bucket, used: RateLimiterRes | null): LimitState => {
  const consumed = used?.consumedPoints ?? 0;
  return {
    isAllowed: consumed <= points,
    limit: points,
    remaining: Math.max(0, points - consumed),
    windowSeconds: seconds,
    resetAtMs: Date.now() + (used?.msBeforeNext ?? seconds * 1_000),
  };
};

/**
 * Counts in Redis, exactly over all processes; while Redis is away, in this process at the same numbers.
 * Without `redis`, in this process alone. Windows are fixed: each opens with its first point.
 */
export const createLimiter = (redis?: Redis, namespace = ""): Limiter => {
  const limiters = new Map<string, RateLimiterAbstract>();

  /** One for each name and number: a changed number counts on in the running window. */
  const limiterOf = ({ name, points, seconds }: Bucket): RateLimiterAbstract => {
    const id = `${name}:${points}:${seconds}`;
    let limiter = limiters.get(id);
    if (!limiter) {
      const options = { keyPrefix: `${namespace}:limit:${name}`, points, duration: seconds };
      const memory = new RateLimiterMemory(options);
      limiter =
        redis === undefined
          ? memory
          : new RateLimiterRedis({
              ...options,
              storeClient: redis,
              insuranceLimiter: memory,
              rejectIfRedisNotReady: true,
            });
      limiters.set(id, limiter);
    }
    return limiter;
  };

  return {
    consume: async (bucket, key, points = 1) => {
      try {
        return stateOf(bucket, await limiterOf(bucket).consume(key, points));
      } catch (error) {
        if (error instanceof RateLimiterRes) return stateOf(bucket, error);
        throw error;
      }
    },
    read: async (bucket, key) => stateOf(bucket, await limiterOf(bucket).get(key)),
    reset: async (bucket, key) => void (await limiterOf(bucket).delete(key)),
  };
};
