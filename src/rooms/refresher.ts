/** Delay before a failed refresh is retried. */
const RETRY_MS = 1_000;

export type RefresherParts = {
  /** Minimum milliseconds between refreshes; evaluated each time. */
  everyMs(): number;
  run(): Promise<void>;
  later(delayMs: number, run: () => unknown): void;
  onError(error: unknown): void;
};

/** Coalesces requests to refresh into runs with a minimum interval. */
export class Refresher {
  readonly #parts: RefresherParts;
  #isDirty = false;
  #isScheduled = false;
  #isRunning = false;
  #ranAtMs = -Infinity;

  constructor(parts: RefresherParts) {
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
