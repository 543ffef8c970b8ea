import { type DomainError, retryLater } from "../domain/kernel/errors.ts";
import { Semaphore } from "../domain/kernel/semaphore.ts";

export type GateLimits = {
  /** Maximum number of concurrent tasks, each no longer than `workMaxMs`. */
  activeMax: number;
  workMaxMs: number;
  /** Maximum number of waiting tasks, each no longer than `waitMaxMs`. */
  waitingMax: number;
  waitMaxMs: number;
};

const tooMany = (): DomainError => retryLater("too many joins at once: try again", "SERVER_BUSY");
const tooLate = (): DomainError => retryLater("the room did not answer in time", "NOT_READY");
const stopping = (): DomainError => retryLater("the server is stopping", "NOT_READY");

/** Limits concurrent joins. Further joins wait in a queue; those beyond the queue's limit are refused. */
export class Gate {
  readonly #slots: Semaphore;
  readonly #workMaxMs: number;
  readonly #closed = new AbortController();

  constructor({ activeMax, workMaxMs, waitingMax, waitMaxMs }: GateLimits) {
    this.#slots = new Semaphore({ slots: activeMax, waitingMax, waitMaxMs, refusal: tooMany });
    this.#workMaxMs = workMaxMs;
  }

  get waiting(): number {
    return this.#slots.waiting;
  }

  /**
   * Runs a task when there is capacity. A task that exceeds its time is no longer awaited, but continues.
   * @throws DomainError SERVICE_UNAVAILABLE SERVER_BUSY, NOT_READY
   */
  pass<T>(run: () => Promise<T>): Promise<T> {
    return this.#slots.run(() => this.#within(run), this.#closed);
  }

  /** Refuses all running and waiting tasks, and accepts no more. */
  close(): void {
    this.#closed.abort(stopping());
  }

  async #within<T>(run: () => Promise<T>): Promise<T> {
    const { signal } = this.#closed;
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const timer = setTimeout(() => reject(tooLate()), this.#workMaxMs);
    const onClosed = (): void => reject(signal.reason);
    signal.addEventListener("abort", onClosed);
    run().then(resolve, reject);
    return promise.finally(() => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onClosed);
    });
  }
}
