import { DomainError } from "./errors.ts";
import { BUSY } from "./outages.ts";
import { Unprepared } from "./unprepared.ts";

/** What may wait in one lane, by weight, and for how long, in ms. */
const WAITING_MAX = 60;
const WAIT_MAX_MS = 10_000;

/** Seconds after which who was sent away comes back. */
const RETRY_SECONDS = 1;

/** Lanes of a process by key. One at a time is in each, and others wait in the order of their coming. */
export type Lanes = {
  /** Enters a lane where nobody is in it. @returns whether it was entered */
  tryEnter(key: string): boolean;
  /**
   * Enters a lane after all who wait in it.
   * @param weight 1 for who holds little memory while waiting
   * @throws DomainError SERVICE_UNAVAILABLE BUSY where those who wait weigh too much, or after WAIT_MAX_MS
   */
  enter(key: string, weight: number): Promise<void>;
  /** Lets the next one in. */
  leave(key: string): void;
};

const busy = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "Others are at work on the same right now, try again", {
    reason: BUSY,
    retryAfterSeconds: RETRY_SECONDS,
  });

/** @param waitMaxMs the longest wait, in ms */
export const createLanes = (waitMaxMs = WAIT_MAX_MS): Lanes => {
  /** Who waits with which weight, for each lane that somebody is in. */
  const lines = new Map<string, Map<() => void, number>>();
  const tryEnter = (key: string): boolean => {
    if (lines.has(key)) return false;
    lines.set(key, new Map());
    return true;
  };
  return {
    tryEnter,
    enter: async (key, weight) => {
      if (tryEnter(key)) return;
      const line = lines.get(key)!;
      let sum = weight;
      for (const other of line.values()) sum += other;
      if (sum > WAITING_MAX) throw busy();
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      line.set(resolve, weight);
      const timer = setTimeout(() => {
        line.delete(resolve);
        reject(busy());
      }, waitMaxMs);
      await promise.finally(() => clearTimeout(timer));
    },
    leave: (key) => {
      const line = lines.get(key);
      const [next] = line?.keys() ?? [];
      if (!next) return void lines.delete(key);
      line?.delete(next);
      next();
    },
  };
};

/** The lanes that one transaction is in, however often it is undone and run again. */
export class Turns {
  /** How often the transaction was undone because something was to be prepared. */
  undone = 0;
  readonly #lanes: Lanes;
  readonly #held = new Set<string>();

  constructor(lanes: Lanes) {
    this.#lanes = lanes;
  }

  /**
   * Enters a lane until the transaction is over. A queue for a lock of the database would hold a connection
   * for each who waits, and those are few.
   * @param weight as for `Lanes.enter`
   * @throws OutOfTurn where another transaction of the process is in it: this one is undone, waits for its
   *   turn without a connection, and is run again
   */
  take(key: string, weight = 1): void {
    if (this.#held.has(key)) return;
    if (!this.#lanes.tryEnter(key)) throw new OutOfTurn(this, key, weight);
    this.#held.add(key);
  }

  /** Waits for a lane, with none held meanwhile: so no two wait for one another. */
  async wait(key: string, weight: number): Promise<void> {
    this.release();
    await this.#lanes.enter(key, weight);
    this.#held.add(key);
  }

  release(): void {
    for (const key of this.#held) this.#lanes.leave(key);
    this.#held.clear();
  }
}

class OutOfTurn extends Unprepared {
  readonly #turns: Turns;
  readonly #key: string;
  readonly #weight: number;

  constructor(turns: Turns, key: string, weight: number) {
    super(`another transaction is in the lane ${key}`);
    this.#turns = turns;
    this.#key = key;
    this.#weight = weight;
  }

  override prepare(): Promise<void> {
    return this.#turns.wait(this.#key, this.#weight);
  }
}
