import { type DomainError, retryLater } from "../domain/kernel/errors.ts";

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
  readonly #limits: GateLimits;
  readonly #line = new Set<() => void>();
  /** Callbacks that end all running and waiting tasks. */
  readonly #ends = new Set<(error: DomainError) => void>();
  #active = 0;
  #isClosed = false;

  constructor(limits: GateLimits) {
    this.#limits = limits;
  }

  get waiting(): number {
    return this.#line.size;
  }

  /**
   * Runs a task when there is capacity. A task that exceeds its time is no longer awaited, but continues.
   * @throws DomainError SERVICE_UNAVAILABLE SERVER_BUSY, NOT_READY
   */
  async pass<T>(run: () => Promise<T>): Promise<T> {
    if (this.#isClosed) throw stopping();
    if (this.#active < this.#limits.activeMax) this.#active++;
    else await this.#queue();
    try {
      return await this.#within(this.#limits.workMaxMs, tooLate, (resolve, reject) => {
        run().then(resolve, reject);
      });
    } finally {
      const [next] = this.#line;
      if (next) next();
      else this.#active--;
    }
  }

  /** Refuses all running and waiting tasks, and accepts no more. */
  close(): void {
    this.#isClosed = true;
    this.#line.clear();
    for (const end of this.#ends) end(stopping());
  }

  /** Waits until a running task ends. */
  async #queue(): Promise<void> {
    if (this.#line.size >= this.#limits.waitingMax) throw tooMany();
    let leave = (): void => undefined;
    // A refused task leaves the queue at once: a slot given to it would be lost.
    const late = (): DomainError => {
      leave();
      return tooMany();
    };
    await this.#within<void>(this.#limits.waitMaxMs, late, (resolve) => {
      const enter = (): void => {
        leave();
        resolve();
      };
      leave = () => void this.#line.delete(enter);
      this.#line.add(enter);
    });
  }

  #within<T>(
    maxMs: number,
    late: () => DomainError,
    begin: (resolve: (value: T) => void, reject: (error: Error) => void) => void,
  ): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const timer = setTimeout(() => reject(late()), maxMs);
    this.#ends.add(reject);
    begin(resolve, reject);
    return promise.finally(() => {
      clearTimeout(timer);
      this.#ends.delete(reject);
    });
  }
}
