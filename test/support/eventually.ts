import { AssertionError } from "node:assert";
import { setTimeout as delay } from "node:timers/promises";

/** Polls are this far apart at first, and further the longer they go on: what takes long is not hammered. */
const POLL_MIN_MS = 15;
const POLL_MAX_MS = 100;
const pollAfter = (waitedMs: number): number => Math.min(POLL_MAX_MS, Math.max(POLL_MIN_MS, waitedMs / 20));

type EventuallyOptions = {
  /** Default 30,000: far more than anything takes, also where suites run side by side on slow cores. */
  timeoutMs?: number;
  /** What is waited for, as the failure should name it. */
  label?: string;
};

type NotYet = undefined | null | false | 0 | "";
/** A check without a value would never be true; those with assertions belong to `eventuallyHolds`. */
type HasValue<T> = [T] extends [void] ? { "use eventuallyHolds for assertions": never } : unknown;

/** Polls until `look` gives a truthy value, and looks once more when the time is over. */
const poll = async <T>(
  look: () => T | Promise<T>,
  isNotYet: (error: unknown) => boolean,
  { timeoutMs = 30_000, label }: EventuallyOptions,
): Promise<Exclude<T, NotYet>> => {
  const startedAt = performance.now();
  for (;;) {
    const isLast = performance.now() - startedAt >= timeoutMs;
    let last: string;
    let cause: unknown;
    try {
      const value = await look();
      if (value) return value as Exclude<T, NotYet>;
      last = `last value: ${String(value)}`;
    } catch (error) {
      if (!isNotYet(error)) throw error;
      last = `last error: ${String(error)}`;
      cause = error;
    }
    if (isLast) throw new Error(`${label}: not in ${timeoutMs} ms, ${last}`, { cause });
    await delay(pollAfter(performance.now() - startedAt));
  }
};

/**
 * Polls until `check` gives a truthy value, and gives that value. A throw counts as "not yet", but an
 * assertion that fails ends it at once: it says what must never be. When the time is over it throws an error
 * with the label and what was seen last.
 *
 *     const joined = await eventually(() => messages.find(({ type }) => type === "lobby.joined"));
 */
export const eventually = <T>(
  check: (() => T | Promise<T>) & HasValue<T>,
  options: EventuallyOptions = {},
): Promise<Exclude<T, NotYet>> =>
  poll<T>(check, (error) => !(error instanceof AssertionError), { label: "the condition holds", ...options });

/**
 * Polls until `assertions` does not throw.
 *
 *     await eventuallyHolds(async () => assert.equal((await board.top()).length, 3));
 */
export const eventuallyHolds = async (
  assertions: () => void | Promise<void>,
  options: EventuallyOptions = {},
): Promise<void> => {
  await poll(
    async () => {
      await assertions();
      return true;
    },
    () => true,
    { label: "the assertions hold", ...options },
  );
};

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
