import { limitKeyOf } from "./ip-address.ts";
import type { IpBlock } from "./ip-block.ts";
import type { Bucket, Counted, Limiter } from "./limiter.ts";
import { LIMITS } from "./limits.ts";

/** The limits by address that an administrator may read and reset, by their names in the API. */
const BUCKETS = {
  global: LIMITS.anonymous,
  registration: LIMITS.registration,
  login: LIMITS.loginFailures,
} as const satisfies Record<string, Bucket>;
export type IpBucket = keyof typeof BUCKETS;
export const IP_BUCKETS = Object.keys(BUCKETS) as [IpBucket, ...IpBucket[]];

export type IpStatus = {
  ip: string;
  usage: {
    /** Requests counted in the window, including rejected ones. */
    current: number;
    limit: number;
    remaining: number;
    /** In seconds. */
    window: number;
    /** Unix seconds. */
    resetAt: number;
    /** 0 to 100, to one decimal. */
    usagePercent: number;
  };
  isBlocked: boolean;
  blockReason?: string;
  /** Unix seconds; absent for a permanent block. */
  blockExpiresAt?: number;
};

const unixSeconds = (ms: number): number => Math.ceil(ms / 1_000);

export const readIpUsage = (limiter: Limiter, bucket: IpBucket, address: string): Promise<Counted> =>
  limiter.read(BUCKETS[bucket], limitKeyOf(address));

/** Returns the state of an address without requests. */
export const unusedIp = (bucket: IpBucket, now: Date): Counted => {
  const { points, seconds } = BUCKETS[bucket];
  const resetAtMs = now.getTime() + seconds * 1_000;
  return { isAllowed: true, used: 0, limit: points, remaining: points, windowSeconds: seconds, resetAtMs };
};

export const resetIpUsage = async (
  limiter: Limiter,
  buckets: readonly IpBucket[],
  address: string,
): Promise<void> => {
  for (const bucket of buckets) await limiter.reset(BUCKETS[bucket], limitKeyOf(address));
};

/** `ip` in its canonical spelling. */
export const ipStatus = (ip: string, state: Counted, block: IpBlock | undefined): IpStatus => ({
  ip,
  usage: {
    current: state.used,
    limit: state.limit,
    remaining: state.remaining,
    window: state.windowSeconds,
    resetAt: unixSeconds(state.resetAtMs),
    usagePercent: Math.min(100, Math.round((state.used / state.limit) * 1_000) / 10),
  },
  isBlocked: block !== undefined,
  ...(block && { blockReason: block.reason }),
  ...(block?.expiresAt && { blockExpiresAt: unixSeconds(block.expiresAt.getTime()) }),
});
