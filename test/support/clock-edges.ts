import { setTimeout as delay } from "node:timers/promises";

/** Milliseconds until the clock's present period of that length ends; periods begin with 1970 in UTC. */
const leftOf = (periodMs: number): number => periodMs - (Date.now() % periodMs);

/**
 * Waits past the end of the clock's present day, hour or minute when that is nearer than `nearMs`, so that
 * what a test counts or calls today stays in one.
 */
export const pastEdgeOf = async (periodMs: number, nearMs: number): Promise<void> => {
  const leftMs = leftOf(periodMs);
  if (leftMs <= nearMs) await delay(leftMs + 5);
};

/** Waits past midnight in UTC when it is near: no day, week or month ends in the next seconds. */
export const pastMidnight = (): Promise<void> => pastEdgeOf(86_400_000, 15_000);
