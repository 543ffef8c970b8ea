import type { Bucket, Count } from "./limiter.ts";

/** What a window has counted, and in how many ms it closes. */
export type Usage = { used: number; closesInMs: number };

/** Where windows are kept. */
export type Windows = {
  /** Counts one after another, up to the first that is over its limit; the usage of each that was counted. */
  consume(counts: readonly Count[]): Promise<Usage[]>;
  /** Undefined for a window that is not open. */
  read(bucket: Bucket, key: string): Promise<Usage | undefined>;
  reset(bucket: Bucket, key: string): Promise<void>;
};

/** Windows of one name; beyond that the oldest close early. About 200 bytes each. */
const WINDOWS_MAX = 100_000;

type Window = { used: number; closesAtMs: number };

/**
 * The windows of one name in two ages. After the time that a window lasts, the younger become the older, and
 * the older, all of which have closed by then, are dropped as a whole; the same happens early when there are
 * too many. (A Map from whose front is deleted gets slow: it walks over the holes.)
 */
type Ages = { young: Map<string, Window>; old: Map<string, Window>; turnAtMs: number };

/**
 * Windows in this process: those of a million addresses take no more memory than `maxWindows` do.
 * @param clockMs a clock that only goes forward
 */
export const createMemoryWindows = (
  clockMs: () => number = () => performance.now(),
  maxWindows = WINDOWS_MAX,
): Windows => {
  const names = new Map<string, Ages>();

  const agesOf = ({ name, seconds }: Bucket, nowMs: number): Ages => {
    const turnAtMs = nowMs + seconds * 1_000;
    let ages = names.get(name);
    if (ages === undefined) {
      ages = { young: new Map(), old: new Map(), turnAtMs };
      names.set(name, ages);
    } else if (nowMs >= ages.turnAtMs || ages.young.size >= maxWindows / 2) {
      Object.assign(ages, { young: new Map(), old: ages.young, turnAtMs });
    }
    return ages;
  };

  const find = (ages: Ages | undefined, key: string, nowMs: number): Window | undefined => {
    const window = ages?.young.get(key) ?? ages?.old.get(key);
    return window !== undefined && window.closesAtMs > nowMs ? window : undefined;
  };

  const open = (bucket: Bucket, key: string, nowMs: number): Window => {
    const ages = agesOf(bucket, nowMs);
    const known = find(ages, key, nowMs);
    if (known !== undefined) return known;
    const window = { used: 0, closesAtMs: nowMs + bucket.seconds * 1_000 };
    ages.young.set(key, window);
    return window;
  };

  return {
    consume: async (counts) => {
      const nowMs = clockMs();
      const usages: Usage[] = [];
      for (const { bucket, key, points = 1 } of counts) {
        const window = open(bucket, key, nowMs);
        window.used += points;
        usages.push({ used: window.used, closesInMs: window.closesAtMs - nowMs });
        if (window.used > bucket.points) break;
      }
      return usages;
    },
    read: async ({ name }, key) => {
      const nowMs = clockMs();
      const window = find(names.get(name), key, nowMs);
      return window && { used: window.used, closesInMs: window.closesAtMs - nowMs };
    },
    reset: async ({ name }, key) => {
      const ages = names.get(name);
      ages?.young.delete(key);
      ages?.old.delete(key);
    },
  };
};
