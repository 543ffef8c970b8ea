import { DomainError } from "../domain/kernel/errors.ts";

/** Delay before a failed run is retried. */
const RETRY_MS = 1_000;

type CoalescerParts = {
  /** Minimum milliseconds between runs; evaluated each time. */
  everyMs(): number;
  run(): Promise<void>;
  later(delayMs: number, run: () => unknown): void;
  onError(error: unknown): void;
};

/** Coalesces requests into runs with a minimum interval, one at a time; a failed run is repeated. */
export class Coalescer {
  readonly #parts: CoalescerParts;
  #isDirty = false;
  #isScheduled = false;
  #isRunning = false;
  #ranAtMs = -Infinity;

  constructor(parts: CoalescerParts) {
    this.#parts = parts;
  }

  /** Runs at once, or as soon as the minimum interval has passed. */
  soon(): void {
    this.#isDirty = true;
    if (this.#isRunning || this.#isScheduled) return;
    this.#schedule(this.#ranAtMs + this.#parts.everyMs() - performance.now());
  }

  /** Runs now; requests during the run are served by another one. */
  async now(): Promise<void> {
    this.#isDirty = false;
    this.#isRunning = true;
    this.#ranAtMs = performance.now();
    try {
      await this.#parts.run();
    } finally {
      this.#isRunning = false;
    }
    if (this.#isDirty) this.soon();
  }

  #schedule(delayMs: number): void {
    this.#isScheduled = true;
    this.#parts.later(Math.max(0, delayMs), async () => {
      this.#isScheduled = false;
      try {
        await this.now();
      } catch (error) {
        this.#parts.onError(error);
        if (!this.#isScheduled) this.#schedule(RETRY_MS);
      }
    });
  }
}

/** Items of this process that are checked together, at an interval, while there are any. */
export type Ticker<T> = { add(item: T): void; remove(item: T): void; count(): number };

type TickerParts<T> = {
  everyMs: number;
  run(items: readonly T[]): Promise<void>;
  onError: (error: unknown) => void;
};

const all = new Set<() => void>();

/** Runs all tickers now, after a time in which messages may have been lost. */
export const tickAll = (): void => {
  for (const tick of all) tick();
};

/** Runs never overlap: a slow one skips the ticks it misses. */
export const createTicker = <T>({ everyMs, run, onError }: TickerParts<T>): Ticker<T> => {
  const items = new Set<T>();
  let timer: NodeJS.Timeout | undefined;
  let isRunning = false;
  const tick = async (): Promise<void> => {
    if (isRunning) return;
    isRunning = true;
    try {
      await run([...items]);
    } catch (error) {
      onError(error);
    } finally {
      isRunning = false;
    }
  };
  const tickNow = () => void tick();
  return {
    add: (item) => {
      items.add(item);
      all.add(tickNow);
      timer ??= setInterval(() => void tick(), everyMs).unref();
    },
    remove: (item) => {
      items.delete(item);
      if (items.size > 0) return;
      clearInterval(timer);
      timer = undefined;
      all.delete(tickNow);
    },
    count: () => items.size,
  };
};

/** Lets each of its keys do something at most `max` times in a window, which opens with the first time. */
export class Rate {
  readonly #max: number;
  readonly #windowMs: number;
  readonly #windows = new WeakMap<object, { sinceMs: number; uses: number }>();

  constructor(max: number, windowMs: number) {
    this.#max = max;
    this.#windowMs = windowMs;
  }

  /** Counts one use. @returns whether it is allowed */
  take(key: object, nowMs: number): boolean {
    const window = this.#windows.get(key);
    if (!window) this.#windows.set(key, { sinceMs: nowMs, uses: 1 });
    else if (nowMs - window.sinceMs < this.#windowMs) return ++window.uses <= this.#max;
    else Object.assign(window, { sinceMs: nowMs, uses: 1 });
    return true;
  }
}

/** Limits requests that read everything again for one client. */
export class ResyncRate {
  readonly #rate = new Rate(1, 1_000);
  readonly #request: string;

  /** @param request the name of the message */
  constructor(request: string) {
    this.#request = request;
  }

  /** @throws DomainError RATE_LIMITED */
  take(client: object, now: Date): void {
    if (this.#rate.take(client, now.getTime())) return;
    const retry = { retryAfterSeconds: 1 };
    throw new DomainError("RATE_LIMITED", `${this.#request}: at most once a second`, retry);
  }
}
