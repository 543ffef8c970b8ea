import assert from "node:assert/strict";
import type { Waiter, WaitingRoom } from "./waiting-room.ts";

export type SemaphoreOptions = {
  /** Slots, of each key where there are keys: at least one. */
  slots: number;
  /** Maximum number of those who wait for a slot, of each key where there are keys. */
  waitingMax: number;
  /** Maximum wait in ms; default: until it is their turn. */
  waitMaxMs?: number;
  /** Creates the error of who comes when too many wait, or has waited too long. */
  refusal: () => Error;
  /** Bounds what waits at this semaphore together with what waits elsewhere. */
  room?: WaitingRoom;
};

type Place = { enter: () => void };

/** Bounds how many do something at once in this process; others wait in the order of their arrival. */
export class Semaphore {
  readonly #options: SemaphoreOptions;
  readonly #line = new Set<Place>();
  #held = 0;

  constructor(options: SemaphoreOptions) {
    assert(options.slots >= 1, "a semaphore has slots");
    this.#options = options;
  }

  /** Number of those who wait. */
  get waiting(): number {
    return this.#line.size;
  }

  /** Whether all slots are free; then nobody waits either. */
  get isIdle(): boolean {
    return this.#held === 0;
  }

  /** Takes a slot if one is free. @returns whether it was taken */
  tryAcquire(): boolean {
    if (this.#held >= this.#options.slots) return false;
    this.#held++;
    return true;
  }

  /**
   * Takes a slot after all who wait already.
   * @throws the refusal; what the waiting room throws; the reason of the signal as soon as it is aborted
   */
  async acquire(waiter: Waiter = {}): Promise<void> {
    waiter.signal?.throwIfAborted();
    if (!this.tryAcquire()) await this.#queue(waiter);
  }

  async #queue(waiter: Waiter): Promise<void> {
    const { waitingMax, refusal, room } = this.#options;
    if (this.#line.size >= waitingMax) throw refusal();
    const leaveRoom = room?.take(waiter);
    try {
      await this.#wait(waiter.signal);
    } finally {
      leaveRoom?.();
    }
  }

  /** Gives a slot back: it passes to who has waited longest, and is free only where nobody waits. */
  release(): void {
    assert(this.#held > 0, "a slot is released once");
    const [next] = this.#line;
    if (!next) return void this.#held--;
    this.#line.delete(next);
    next.enter();
  }

  /** Resolves or rejects as `work` does, which begins at once where a slot is free. @throws as `acquire` */
  async run<T>(work: () => Promise<T>, waiter: Waiter = {}): Promise<T> {
    waiter.signal?.throwIfAborted();
    if (!this.tryAcquire()) await this.#queue(waiter);
    try {
      return await work();
    } finally {
      this.release();
    }
  }

  /** Who gives up leaves the line at once: a slot passed on to them would be lost. */
  async #wait(signal: AbortSignal | undefined): Promise<void> {
    const { waitMaxMs, refusal } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const place: Place = { enter: resolve };
    this.#line.add(place);
    const giveUp = (reason: unknown): void => {
      this.#line.delete(place);
      reject(reason);
    };
    const onAbort = (): void => giveUp(signal?.reason);
    const timer = waitMaxMs === undefined ? undefined : setTimeout(() => giveUp(refusal()), waitMaxMs);
    signal?.addEventListener("abort", onAbort);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    }
  }
}

/** Semaphores by key, such as one for each tenant; a key takes no memory while it is idle. */
export class KeyedSemaphore {
  readonly #options: SemaphoreOptions;
  readonly #byKey = new Map<string, Semaphore>();

  constructor(options: SemaphoreOptions) {
    this.#options = options;
  }

  /** Number of keys of which slots are taken. */
  get size(): number {
    return this.#byKey.size;
  }

  /** Takes a slot of a key if one is free. @returns whether it was taken */
  tryAcquire(key: string): boolean {
    return this.#of(key).tryAcquire();
  }

  /** Takes a slot of a key after all who wait for one already. @throws as Semaphore's */
  async acquire(key: string, waiter?: Waiter): Promise<void> {
    try {
      await this.#of(key).acquire(waiter);
    } finally {
      this.#forgetIdle(key);
    }
  }

  /** Gives a slot of a key back, as Semaphore's. */
  release(key: string): void {
    this.#of(key).release();
    this.#forgetIdle(key);
  }

  /** As Semaphore's, with a slot of the key. */
  async run<T>(key: string, work: () => Promise<T>, waiter?: Waiter): Promise<T> {
    try {
      return await this.#of(key).run(work, waiter);
    } finally {
      this.#forgetIdle(key);
    }
  }

  #of(key: string): Semaphore {
    const known = this.#byKey.get(key);
    if (known) return known;
    const made = new Semaphore(this.#options);
    this.#byKey.set(key, made);
    return made;
  }

  #forgetIdle(key: string): void {
    if (this.#byKey.get(key)?.isIdle === true) this.#byKey.delete(key);
  }
}
