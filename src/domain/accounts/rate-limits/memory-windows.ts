import type { Bucket, Count } from "./limiter.ts";

/** A point to be taken back, and the ms that the window in which it was counted has left. */
type TakenBack = Omit<Count, "points"> & Pick<Usage, "closesInMs">;

/** Points counted in a window, and the ms until it closes. */
export type Usage = { used: number; closesInMs: number };

/** Storage of windows. */
export type Windows = {
  /** Counts in order, up to the first that is over its limit; returns the usage of each that was counted. */
  consume(counts: readonly Count[]): Promise<Usage[]>;
  /** Does nothing in another window. */
  takeBack(taken: TakenBack): Promise<void>;
  /** Returns undefined for a window that is not open. */
  read(bucket: Bucket, key: string): Promise<Usage | undefined>;
  reset(bucket: Bucket, key: string): Promise<void>;
};

/**
 * Returns until when a window may be open, in ms, to be the one that had `closesInMs` left: the next one
 * closes a whole duration later, so half of one is left for slow answers.
 */
export const latestClose = ({ bucket: { seconds }, closesInMs }: TakenBack): number =>
  Math.floor(closesInMs + seconds * 500);

/** Maximum windows of one name; beyond it the oldest close early. About 200 bytes each. */
const WINDOWS_MAX = 100_000;

type Window = { used: number; closesAtMs: number };

/**
 * The windows of one name in two generations. After the duration of a window, the younger become the older,
 * and the older, all of which have closed by then, are dropped as a whole; the same happens early when there
 * are too many. (Deleting from the front of a Map makes it slow: it iterates over the holes.)
 */
type Generations = { young: Map<string, Window>; old: Map<string, Window>; rotateAtMs: number };

/**
 * Creates windows in this process: those of a million addresses take no more memory than `maxWindows` do,
 * where a library with a timer for each lets a stranger with many addresses decide how much that is.
 * @param clockMs a monotonic clock
 */
export const createMemoryWindows = (
  clockMs: () => number = () => performance.now(),
  maxWindows = WINDOWS_MAX,
): Windows => {
  const names = new Map<string, Generations>();

  const generationsOf = ({ name, seconds }: Bucket, nowMs: number): Generations => {
    const rotateAtMs = nowMs + seconds * 1_000;
    let generations = names.get(name);
    if (generations === undefined) {
      generations = { young: new Map(), old: new Map(), rotateAtMs };
      names.set(name, generations);
    } else if (nowMs >= generations.rotateAtMs || generations.young.size >= maxWindows / 2) {
      Object.assign(generations, { young: new Map(), old: generations.young, rotateAtMs });
    }
    return generations;
  };

  const find = (generations: Generations | undefined, key: string, nowMs: number): Window | undefined => {
    const window = generations?.young.get(key) ?? generations?.old.get(key);
    return window !== undefined && window.closesAtMs > nowMs ? window : undefined;
  };

  const open = (bucket: Bucket, key: string, nowMs: number): Window => {
    const generations = generationsOf(bucket, nowMs);
    const known = find(generations, key, nowMs);
    if (known !== undefined) return known;
    const window = { used: 0, closesAtMs: nowMs + bucket.seconds * 1_000 };
    generations.young.set(key, window);
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
    takeBack: async (taken) => {
      const nowMs = clockMs();
      const window = find(names.get(taken.bucket.name), taken.key, nowMs);
      if (window && window.closesAtMs - nowMs <= latestClose(taken)) window.used--;
    },
    read: async ({ name }, key) => {
      const nowMs = clockMs();
      const window = find(names.get(name), key, nowMs);
      return window && { used: window.used, closesInMs: window.closesAtMs - nowMs };
    },
    reset: async ({ name }, key) => {
      const generations = names.get(name);
      generations?.young.delete(key);
      generations?.old.delete(key);
    },
  };
};
