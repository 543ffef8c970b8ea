import { setTimeout as delay } from "node:timers/promises";

/** Polls are this far apart at first, and further the longer they go on: what takes long is not hammered. */
const POLL_MIN_MS = 15;
const POLL_MAX_MS = 100;
const pollAfter = (waitedMs: number): number => Math.min(POLL_MAX_MS, Math.max(POLL_MIN_MS, waitedMs / 20));

export type EventuallyOptions = {
  /** Default 60,000: far more than anything takes, also where suites run side by side on slow cores. */
  timeoutMs?: number;
  /** What is waited for, as the failure should name it. */
  label?: string;
};

type NotYet = undefined | null | false | 0 | "";
/** A check without a value would never be true; those with assertions belong to `eventuallyHolds`. */
type HasValue<T> = [T] extends [void] ? { "use eventuallyHolds for assertions": never } : unknown;

/**
 * Polls until `check` gives a truthy value, and gives that value; a throw counts as "not yet". When the time
 * is over it throws an error with the label and what was seen last.
 *
 *     const joined = await eventually(() => messages.find(({ type }) => type === "lobby.joined"));
 */
export const eventually = async <T>(
  check: (() => T | Promise<T>) & HasValue<T>,
  { timeoutMs = 60_000, label = "the condition holds" }: EventuallyOptions = {},
): Promise<Exclude<T, NotYet>> => {
  const startedAt = performance.now();
  let last: { value: unknown } | { cause: unknown };
  do {
    try {
      const value = await check();
      if (value) return value as Exclude<T, NotYet>;
      last = { value };
    } catch (cause) {
      last = { cause };
    }
    await delay(pollAfter(performance.now() - startedAt));
  } while (performance.now() - startedAt < timeoutMs);
  const text = `${label}: not in ${timeoutMs} ms`;
  if ("cause" in last) throw new Error(`${text}, last error: ${String(last.cause)}`, { cause: last.cause });
  throw new Error(`${text}, last value: ${String(last.value)}`);
};

/**
 * Polls until `assertions` does not throw.
 *
 *     await eventuallyHolds(async () => assert.equal((await board.top()).length, 3));
 */
export const eventuallyHolds = async (
  assertions: () => void | Promise<void>,
  options: EventuallyOptions = {},
): Promise<void> => {
  await eventually(
    async () => {
      await assertions();
      return true;
    },
    { label: "the assertions hold", ...options },
  );
};
