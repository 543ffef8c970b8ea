import { DomainError } from "../domain/kernel/errors.ts";

export type GateLimits = {
  /** Pieces of work that are done at once, each no longer than `workMaxMs`. */
  activeMax: number;
  workMaxMs: number;
  /** More may wait for their turn, each no longer than `waitMaxMs`. */
  waitingMax: number;
  waitMaxMs: number;
};

/** How far apart those that are sent away come back, in seconds. */
const SPREAD_SECONDS = 4;

/** Sent away with a time that differs from one to the next, so that they do not all come back at once. */
export const comeBackLater = (message: string, reason: string): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", message, {
    reason,
    retryAfterSeconds: 1 + Math.floor(Math.random() * SPREAD_SECONDS),
  });

const tooMany = (): DomainError => comeBackLater("too many join at once", "SERVER_BUSY");
const tooLate = (): DomainError => comeBackLater("the room did not answer in time", "NOT_READY");
const stopping = (): DomainError => comeBackLater("the server is stopping", "NOT_READY");

/** Lets a bounded number of joins in at once. A crowd waits in line; who is beyond the line is sent away. */
export class Gate {
  readonly #limits: GateLimits;
  readonly #line = new Set<() => void>();
  /** What ends the wait of all that are inside or in line. */
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
   * Runs when there is room. Work that takes too long is no longer waited for; it goes on by itself.
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

  /** Sends away all that are inside or in line, and lets nobody in any more. */
  close(): void {
    this.#isClosed = true;
    this.#line.clear();
    for (const end of this.#ends) end(stopping());
  }

  /** Waits for the place of one that is done. */
  async #queue(): Promise<void> {
    if (this.#line.size >= this.#limits.waitingMax) throw tooMany();
    let leave = (): void => undefined;
    // Who is sent away leaves the line in the same moment: a place that is given to nobody would be lost.
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
