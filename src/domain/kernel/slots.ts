import assert from "node:assert/strict";
import { DomainError, retryLater } from "./errors.ts";
import { BUSY } from "./outages.ts";

/** Maximum number of those who wait, and bytes of the requests that they hold meanwhile. */
type WaitingMax = { count: number; bytes: number };

/** Who waits for a slot. */
export type Waiter = {
  /** Undefined where the server acts by itself: it is not counted. */
  tenantId?: string | undefined;
  /** Size of the request held in memory while it waits. */
  bytes?: number | undefined;
  /** Aborted when the caller has gone. */
  signal?: AbortSignal | undefined;
};

const MIB = 1024 * 1024;
/** Limits of all callers who wait in a process. */
const PROCESS_WAITING_MAX: WaitingMax = { count: 600, bytes: 64 * MIB };
/** The same for one tenant: a quarter of it. */
const TENANT_WAITING_MAX: WaitingMax = { count: 150, bytes: 16 * MIB };

/** Seconds after which a rejected caller may retry. */
const RETRY_SECONDS = 1;

/** The refusal of who has waited too long, or who comes when too much waits. */
export const busy = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "Other requests are changing the same data right now: try again", {
    reason: BUSY,
    retryAfterSeconds: RETRY_SECONDS,
  });

/** Bounds what waits at several semaphores together, by tenant and in all. */
export type WaitingRoom = {
  /** @returns a function to be called when the wait is over @throws DomainError BUSY at the limits */
  take(waiter: Waiter): () => void;
};

type Limits = { processMax?: WaitingMax; tenantMax?: WaitingMax };

export const createWaitingRoom = ({
  processMax = PROCESS_WAITING_MAX,
  tenantMax = TENANT_WAITING_MAX,
}: Limits = {}): WaitingRoom => {
  const all = { count: 0, bytes: 0 };
  const tenants = new Map<string, { count: number; bytes: number }>();
  const isOver = (held: WaitingMax, max: WaitingMax, bytes: number): boolean =>
    held.count + 1 > max.count || held.bytes + bytes > max.bytes;
  return {
    take: ({ tenantId, bytes = 0 }) => {
      if (tenantId === undefined) return () => undefined;
      const own = tenants.get(tenantId) ?? { count: 0, bytes: 0 };
      if (isOver(all, processMax, bytes) || isOver(own, tenantMax, bytes)) throw busy();
      tenants.set(tenantId, own);
      for (const held of [all, own]) {
        held.count++;
        held.bytes += bytes;
      }
      return () => {
        for (const held of [all, own]) {
          held.count--;
          held.bytes -= bytes;
        }
        if (own.count === 0) tenants.delete(tenantId);
      };
    },
  };
};

type SemaphoreOptions = {
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

type SharedSlotsOptions = {
  /** Slots of one owner, and of all owners together. */
  slots: { ofOwner: number; ofProcess: number };
  /** Maximum number of those who wait for a slot of an owner, and for one of the process. */
  waitingMax: { ofOwner: number; ofProcess: number };
  /** Maximum wait in ms for either. */
  waitMaxMs: number;
  /** Creates the error of who comes when too many wait, or has waited too long. */
  refusal: () => Error;
  /** Bounds what waits here together with what waits elsewhere. */
  room?: WaitingRoom;
};

/**
 * Slots of a process that owners share: one owner takes some of them at most, so that another waits for those
 * few however many requests the first one sends. Each owner is served in the order of arrival.
 */
export class SharedSlots {
  readonly #ofOwners: KeyedSemaphore;
  readonly #ofProcess: Semaphore;

  constructor({ slots, waitingMax, ...common }: SharedSlotsOptions) {
    this.#ofOwners = new KeyedSemaphore({ ...common, slots: slots.ofOwner, waitingMax: waitingMax.ofOwner });
    this.#ofProcess = new Semaphore({ ...common, slots: slots.ofProcess, waitingMax: waitingMax.ofProcess });
  }

  /** Resolves or rejects as `work` does, which begins when a slot is free. @throws as a Semaphore's */
  run<T>(owner: string, work: () => Promise<T>, waiter?: Waiter): Promise<T> {
    return this.#ofOwners.run(owner, () => this.#ofProcess.run(work, waiter), waiter);
  }
}

/** Part of a process's connections that the requests and rooms of one tenant hold at once. */
const TENANT_PART = 0.75;
/** Maximum wait for a connection of a pool, in ms. */
export const CONNECTION_WAIT_MS = 3_000;

type ConnectionLimits = { connections: number; connectionWaitMs: number };

/** The refusal of who has waited too long for a connection while the database answers. */
export const tooBusy = (): Error => retryLater("the server has too much to do right now", "SERVER_BUSY");

/**
 * Divides a process's connections among tenants before the pool is asked, which would serve all in the order
 * of their arrival: a tenant's request would wait for as many as another has sent.
 */
export const connectionSlots = ({ connections, connectionWaitMs }: ConnectionLimits): SharedSlots =>
  new SharedSlots({
    slots: { ofOwner: Math.max(1, Math.floor(connections * TENANT_PART)), ofProcess: connections },
    // Bounded by their wait, and by the requests that a process accepts.
    waitingMax: { ofOwner: Infinity, ofProcess: Infinity },
    waitMaxMs: connectionWaitMs,
    refusal: tooBusy,
  });
