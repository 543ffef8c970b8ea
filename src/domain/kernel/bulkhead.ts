import assert from "node:assert/strict";
import { DomainError, retryLater } from "./errors.ts";
import { BUSY } from "./outages.ts";

/** Who waits for a slot. */
export type Waiter = {
  /** Whose wait it is, such as the tenant; undefined where the server acts by itself, which always may. */
  owner?: string | undefined;
  /** Size of the request held in memory while it waits. */
  bytes?: number | undefined;
  /** Aborted when the caller has gone. */
  signal?: AbortSignal | undefined;
};

/** How many do something at once, and how many wait for that at most, with how many bytes. */
type Bounds = { slots?: number; waiting?: number; bytes?: number };

type BulkheadOptions = {
  /** Of each key. */
  ofKey?: Bounds;
  /** Of each owner of waits, whatever their keys. */
  ofOwner?: Omit<Bounds, "slots">;
  /** Of all together. */
  ofAll?: Bounds;
  /** Maximum wait in ms; default: until it is their turn. */
  waitMaxMs?: number;
  /** Creates the error of who comes when too many wait, or has waited too long. */
  refusal: () => Error;
};

/** What is held at once, what waits, and the waits' bytes. */
class Held {
  slots = 0;
  waiting = 0;
  bytes = 0;

  get isIdle(): boolean {
    return this.slots === 0 && this.waiting === 0;
  }

  hasSlot({ slots = Infinity }: Bounds = {}): boolean {
    return this.slots < slots;
  }

  hasRoom({ waiting = Infinity, bytes = Infinity }: Bounds = {}, more: number): boolean {
    return this.waiting < waiting && this.bytes + more <= bytes;
  }

  wait(bytes: number, by: 1 | -1): void {
    this.waiting += by;
    this.bytes += by * bytes;
  }
}

/**
 * Bounds how many do something at once in this process, of each key and in all. Others wait: of one key in the
 * order of their arrival; of all keys those go on that hold the fewest slots, and take turns.
 */
export class Bulkhead {
  readonly #options: BulkheadOptions;
  readonly #all = new Held();
  readonly #keys = new Map<string, Held>();
  readonly #owners = new Map<string, Held>();
  /** Who waits, by key; the key whose turn is next is first. */
  readonly #lines = new Map<string, Set<() => void>>();

  constructor(options: BulkheadOptions) {
    const { ofKey, ofAll } = options;
    assert(
      [ofKey?.slots, ofAll?.slots].every((slots = 1) => slots >= 1),
      "a bulkhead has slots",
    );
    this.#options = options;
  }

  /** Number of those who wait. */
  get waiting(): number {
    return this.#all.waiting;
  }

  /** Number of keys that hold a slot or wait for one: others take no memory. */
  get size(): number {
    return this.#keys.size;
  }

  /** Takes a slot of a key if one is free. @returns whether it was taken */
  tryAcquire(key = ""): boolean {
    const held = this.#keys.get(key);
    if (!this.#all.hasSlot(this.#options.ofAll) || held?.hasSlot(this.#options.ofKey) === false) return false;
    this.#take(key);
    return true;
  }

  /**
   * Takes a slot of a key after all who wait for one already.
   * @throws the refusal; the reason of the signal as soon as it is aborted
   */
  async acquire(key = "", waiter: Waiter = {}): Promise<void> {
    waiter.signal?.throwIfAborted();
    if (!this.tryAcquire(key)) await this.#queue(key, waiter);
  }

  /** Gives a slot back: it passes to who is next, and is free only where nobody waits for it. */
  release(key = ""): void {
    const held = this.#keys.get(key);
    assert(held && held.slots > 0, "a slot is released once");
    held.slots--;
    this.#all.slots--;
    this.#forgetIdle(key);
    const next = this.#next();
    if (next === undefined || !this.tryAcquire(next)) return;
    const line = this.#lines.get(next)!;
    this.#lines.delete(next);
    this.#lines.set(next, line);
    const [enter] = line;
    enter!();
  }

  /** The key that waits and holds the fewest slots of those that may have one more. */
  #next(): string | undefined {
    let [best, fewest]: [string | undefined, number] = [undefined, Infinity];
    for (const key of this.#lines.keys()) {
      const held = this.#keys.get(key)!;
      if (held.slots < fewest && held.hasSlot(this.#options.ofKey)) [best, fewest] = [key, held.slots];
      if (fewest === 0) break;
    }
    return best;
  }

  /** Resolves or rejects as `work` does, which begins at once where a slot is free. @throws as `acquire` */
  async run<T>(key: string, work: () => Promise<T>, waiter?: Waiter): Promise<T> {
    waiter?.signal?.throwIfAborted();
    if (!this.tryAcquire(key)) await this.#queue(key, waiter);
    try {
      return await work();
    } finally {
      this.release(key);
    }
  }

  #take(key: string): void {
    this.#of(this.#keys, key).slots++;
    this.#all.slots++;
  }

  #of(all: Map<string, Held>, key: string): Held {
    const known = all.get(key) ?? new Held();
    all.set(key, known);
    return known;
  }

  #forgetIdle(key: string): void {
    if (this.#keys.get(key)?.isIdle) this.#keys.delete(key);
  }

  async #queue(key: string, waiter: Waiter = {}): Promise<void> {
    const { owner, bytes = 0, signal } = waiter;
    try {
      const places = this.#placesFor(key, waiter);
      for (const held of places) held.wait(bytes, 1);
      await this.#wait(key, signal).finally(() => places.forEach((held) => held.wait(bytes, -1)));
    } finally {
      this.#forgetIdle(key);
      if (owner !== undefined && this.#owners.get(owner)?.isIdle) this.#owners.delete(owner);
    }
  }

  /** Where a wait is counted. @throws the refusal where there is no room */
  #placesFor(key: string, { owner, bytes = 0 }: Waiter): Held[] {
    const { ofKey, ofOwner, ofAll, refusal } = this.#options;
    const isServer = ofOwner !== undefined && owner === undefined;
    const places: [Held, Bounds | undefined][] = [
      [this.#of(this.#keys, key), ofKey],
      [this.#all, isServer ? undefined : ofAll],
    ];
    if (owner !== undefined) places.push([this.#of(this.#owners, owner), ofOwner]);
    if (!places.every(([held, bounds]) => held.hasRoom(bounds, bytes))) throw refusal();
    return places.map(([held]) => held);
  }

  /** Who gives up leaves the line at once: a slot passed on to them would be lost. */
  async #wait(key: string, signal: AbortSignal | undefined): Promise<void> {
    const { waitMaxMs, refusal } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const line = this.#lines.get(key) ?? new Set();
    this.#lines.set(key, line);
    const leave = (): void => {
      line.delete(enter);
      if (line.size === 0 && this.#lines.get(key) === line) this.#lines.delete(key);
    };
    const enter = (): void => {
      leave();
      resolve();
    };
    line.add(enter);
    const giveUp = (reason: unknown): void => {
      leave();
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

/** Seconds after which a rejected caller may retry. */
const RETRY_SECONDS = 1;

/** The refusal of who has waited too long, or who comes when too much waits. */
export const busy = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "Too many requests are waiting right now: try again", {
    reason: BUSY,
    retryAfterSeconds: RETRY_SECONDS,
  });

const MIB = 1024 * 1024;
/** Limits of all callers who wait in a process, and of those of one tenant: a quarter. */
export const WAITING: Record<"ofAll" | "ofOwner", { waiting: number; bytes: number }> = {
  ofAll: { waiting: 600, bytes: 64 * MIB },
  ofOwner: { waiting: 150, bytes: 16 * MIB },
};

/** Part of a process's connections that the requests and rooms of one tenant hold at once. */
const TENANT_PART = 0.75;
/** Maximum wait for a connection of a pool, in ms. */
export const CONNECTION_WAIT_MS = 3_000;

type ConnectionLimits = { connections: number; connectionWaitMs: number };

/** The refusal of who has waited too long for a connection while the database answers. */
export const tooBusy = (): Error => retryLater("the server has too much to do right now", "SERVER_BUSY");

/**
 * Divides a process's connections among tenants before the pool is asked, which would serve all in the order
 * of their arrival: a tenant's request would wait for as many as another has sent. Waits are bounded by their
 * time, and by the requests that a process accepts.
 */
export const connectionSlots = ({ connections, connectionWaitMs }: ConnectionLimits): Bulkhead =>
  new Bulkhead({
    ofKey: { slots: Math.max(1, Math.floor(connections * TENANT_PART)) },
    ofAll: { slots: connections },
    waitMaxMs: connectionWaitMs,
    refusal: tooBusy,
  });
