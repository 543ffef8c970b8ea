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
