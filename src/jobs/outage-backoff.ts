import type { Logger } from "pino";

/** The pause after the first outage and the longest one, in ms: work resumes within it after the outage. */
const FIRST_MS = 100;
const LONGEST_MS = 1_000;
/** How often a lasting outage is logged, in ms. */
const LOG_EVERY_MS = 30_000;

/**
 * Backs off a job during an outage: each pause is twice as long as the one before, up to a second. Logs the
 * first outage, one line for each half minute after it, and its end.
 */
export class OutageBackoff {
  readonly #log: Pick<Logger, "info" | "warn">;
  readonly #job: string;
  #inRow = 0;
  #nextMs = FIRST_MS;
  #loggedAtMs = -Infinity;

  constructor(log: Pick<Logger, "info" | "warn">, job: string) {
    this.#log = log;
    this.#job = job;
  }

  /** Records another outage. @returns how long to wait, in ms */
  next(err: unknown): number {
    this.#inRow++;
    if (performance.now() - this.#loggedAtMs >= LOG_EVERY_MS) {
      this.#loggedAtMs = performance.now();
      const what = { err, job: this.#job, inRow: this.#inRow };
      this.#log.warn(what, "a job waits: what it needs does not work; its rows stay as they are");
    }
    const pauseMs = this.#nextMs;
    this.#nextMs = Math.min(LONGEST_MS, pauseMs * 2);
    return pauseMs;
  }

  /** Records the end of the outage. */
  over(): void {
    if (this.#inRow === 0) return;
    this.#log.info({ job: this.#job, inRow: this.#inRow }, "a job goes on");
    this.#inRow = 0;
    this.#nextMs = FIRST_MS;
  }
}
