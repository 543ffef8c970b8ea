import { BATCH, chosenPatience } from "./patience.ts";

const usage = (): NodeJS.CpuUsage =>
  // Node below 23.9 knows only that of all threads together, which is no less.
  "threadCpuUsage" in process ? process.threadCpuUsage() : (process as NodeJS.Process).cpuUsage();

/**
 * CPU that this thread has taken, in ms. A difference is time of its own: neither that of others on the
 * machine nor that in which the process was stopped.
 */
export const threadCpuMs = (): number => {
  const { user, system } = usage();
  return (user + system) / 1_000;
};

/** Share of the time for which a transaction may stand still whose computing may have made it end. */
const STARVED_SHARE = 0.5;

/**
 * The CPU in ms that this thread has taken since `threadCpuMs` was `sinceMs`, where that is so much that
 * PostgreSQL may have ended a transaction of that time because it stood still: its loss is then no outage.
 * Others that take turns on the thread are counted in.
 * @returns undefined where it is less
 */
export const starvedMs = (sinceMs: number): number | undefined => {
  const ms = threadCpuMs() - sinceMs;
  return ms < (chosenPatience() ?? BATCH).idleMs * STARVED_SHARE ? undefined : ms;
};
