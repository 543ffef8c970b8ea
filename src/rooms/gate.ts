import { type DomainError, retryLater } from "../domain/kernel/errors.ts";
import { SharedSlots } from "../domain/kernel/shared-slots.ts";

export type GateLimits = {
  /** Maximum number of concurrent tasks of a tenant and of all, each no longer than `workMaxMs`. */
  activeMax: { ofOwner: number; ofProcess: number };
  workMaxMs: number;
  /** Maximum number of waiting tasks of a tenant, each no longer than `waitMaxMs`. */
  waitingMax: number;
  waitMaxMs: number;
};

const tooMany = (): DomainError => retryLater("too many joins at once: try again", "SERVER_BUSY");
const tooLate = (): DomainError => retryLater("the room did not answer in time", "NOT_READY");
const stopping = (): DomainError => retryLater("the server is stopping", "NOT_READY");

/**
 * Limits concurrent joins, of each tenant to a part of them, so that a crowd of one tenant's players does not
 * keep others waiting. Further joins wait in a queue; those beyond the queue's limit are refused.
 */
export class Gate {
  readonly #slots: SharedSlots;
  #waiting = 0;
  readonly #workMaxMs: number;
  readonly #closed = new AbortController();

  constructor({ activeMax, workMaxMs, waitingMax, waitMaxMs }: GateLimits) {
    this.#slots = new SharedSlots({
      slots: activeMax,
      // Who waits for one of the process has one of the tenant's.
      waitingMax: { ofOwner: waitingMax, ofProcess: Infinity },
      waitMaxMs,
      refusal: tooMany,
    });
    this.#workMaxMs = workMaxMs;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Runs a task of a tenant when there is capacity. A task that exceeds its time is no longer awaited, but
   * continues.
   * @throws DomainError SERVICE_UNAVAILABLE SERVER_BUSY, NOT_READY
   */
  async pass<T>(tenantId: string, run: () => Promise<T>): Promise<T> {
    let isWaiting = true;
    const enter = (): void => {
      if (isWaiting) this.#waiting--;
      isWaiting = false;
    };
    this.#waiting++;
    try {
      const work = (): Promise<T> => {
        enter();
        return this.#within(run);
      };
      return await this.#slots.run(tenantId, work, this.#closed);
    } finally {
      enter();
    }
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
