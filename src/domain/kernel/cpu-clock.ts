import { BATCH, chosenTimeouts } from "./timeouts.ts";

const usage = (): NodeJS.CpuUsage =>
  // Node below 23.9 only reports the CPU time of all threads, an upper bound.
  "threadCpuUsage" in process ? process.threadCpuUsage() : (process as NodeJS.Process).cpuUsage();

/**
 * Returns the CPU time of this thread, in ms. Unlike elapsed time it excludes other processes and times when
 * the process was stopped.
 */
export const threadCpuMs = (): number => {
  const { user, system } = usage();
  return (user + system) / 1_000;
};

/** Fraction of the idle timeout of transactions above which computation may have caused a timeout. */
const STARVED_SHARE = 0.5;

/**
 * Returns the CPU time of this thread since `threadCpuMs` was `sinceMs`, in ms, if it is so long that
 * PostgreSQL may have ended an idle transaction meanwhile: losing it is then no outage. Includes other work
 * on the thread.
 * @returns undefined where it is shorter
 */
export const starvedMs = (sinceMs: number): number | undefined => {
  const ms = threadCpuMs() - sinceMs;
  return ms < (chosenTimeouts() ?? BATCH).idleMs * STARVED_SHARE ? undefined : ms;
};
