import type { Logger } from "pino";

/** The pause after the first outage and the longest one, in ms: all goes on within it once that is over. */
const FIRST_MS = 100;
const LONGEST_MS = 1_000;
/** How often an outage that lasts is told, in ms. */
const TELL_EVERY_MS = 30_000;

/**
 * The pauses of a job while what it needs is away: each twice as long as the one before, up to a second, for
 * as long as it takes. The log has the first outage, one line for each half minute after it, and its end.
 */
export class Pauses {
  readonly #log: Pick<Logger, "info" | "warn">;
  readonly #job: string;
  #inRow = 0;
  #nextMs = FIRST_MS;
  #toldAtMs = -Infinity;

  constructor(log: Pick<Logger, "info" | "warn">, job: string) {
    this.#log = log;
    this.#job = job;
  }

  /** Another outage. @returns how long to wait, in ms */
  next(err: unknown): number {
    this.#inRow++;
    if (performance.now() - this.#toldAtMs >= TELL_EVERY_MS) {
      this.#toldAtMs = performance.now();
      const what = { err, job: this.#job, inRow: this.#inRow };
      this.#log.warn(what, "a job waits: what it needs does not work; its rows stay as they are");
    }
    const pauseMs = this.#nextMs;
    this.#nextMs = Math.min(LONGEST_MS, pauseMs * 2);
    return pauseMs;
  }

  /** It works again. */
  over(): void {
    if (this.#inRow === 0) return;
    this.#log.info({ job: this.#job, inRow: this.#inRow }, "a job goes on");
    this.#inRow = 0;
    this.#nextMs = FIRST_MS;
  }
}
