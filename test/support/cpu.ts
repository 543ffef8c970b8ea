import { isCovered } from "./coverage.ts";

/** What collecting coverage makes of the CPU that code takes, at most: bounds of CPU are multiplied by it. */
export const CPU_SLACK = isCovered ? 6 : 1;

/** Neighbours on the same core make code dearer by a factor for seconds. */
const TRIES = 20;

/** CPU of this thread in ms since `start`. */
const sinceMs = (start: NodeJS.CpuUsage): number => {
  const { user, system } = process.threadCpuUsage(start);
  return (user + system) / 1_000;
};

/**
 * The least CPU in ms that `run` took in `tries` runs, fewer when one stays below `enoughMs`: what else goes
 * on in the process, such as collecting garbage, hits some of them and not all.
 */
export const leastCpuMs = (run: () => unknown, enoughMs: number, tries = TRIES): number => {
  let least = Infinity;
  for (let i = 0; i < tries && least >= enoughMs; i++) {
    const start = process.threadCpuUsage();
    run();
    least = Math.min(least, sinceMs(start));
  }
  return least;
};

/** The most CPU in ms between two turns of the event loop while `run` is under way. */
const longestBlock = async (run: () => Promise<unknown>): Promise<number> => {
  let longest = 0;
  let isOver = false;
  let start = process.threadCpuUsage();
  const look = (): void => {
    longest = Math.max(longest, sinceMs(start));
    start = process.threadCpuUsage();
    if (!isOver) setImmediate(look);
  };
  setImmediate(look);
  await run();
  longest = Math.max(longest, sinceMs(start));
  isOver = true;
  return longest;
};

/** As `leastCpuMs`, of the longest time that `run` keeps the event loop from others. */
export const leastBlockMs = async (
  run: () => Promise<unknown>,
  enoughMs: number,
  tries = TRIES,
): Promise<number> => {
  let least = Infinity;
  for (let i = 0; i < tries && least >= enoughMs; i++) least = Math.min(least, await longestBlock(run));
  return least;
};
