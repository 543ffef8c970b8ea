import { DomainError } from "./errors.ts";
import { BUSY } from "./outages.ts";
import { Unprepared } from "./unprepared.ts";

/** Transactions that may wait in one lane, and for how long, in ms. */
const LANE_WAITING_MAX = 60;
const WAIT_MAX_MS = 10_000;

/** Transactions that may wait, with the bytes of the requests that they hold meanwhile. */
type WaitingMax = { count: number; bytes: number };

const MIB = 1024 * 1024;
/** What may wait in a process, over all lanes, for callers. */
const PROCESS_WAITING_MAX: WaitingMax = { count: 600, bytes: 64 * MIB };
/** The same of one tenant: a quarter of it. */
const TENANT_WAITING_MAX: WaitingMax = { count: 150, bytes: 16 * MIB };

/** Seconds after which who was sent away comes back. */
const RETRY_SECONDS = 1;

/** For whom a transaction waits. */
type Waiter = {
  /** Undefined where the server acts by itself: then only the lane is bounded. */
  tenantId?: string | undefined;
  /** Of what it holds in memory while it waits, as it came. */
  bytes?: number | undefined;
  /** Aborted when nobody waits for it any more. */
  signal?: AbortSignal | undefined;
};

/** Lanes of a process by key. One at a time is in each, and others wait in the order of their coming. */
export type Lanes = {
  /** Enters a lane where nobody is in it. @returns whether it was entered */
  tryEnter(key: string): boolean;
  /**
   * Enters a lane after all who wait in it.
   * @throws DomainError SERVICE_UNAVAILABLE BUSY where too much waits in the lane, for the tenant or in the
   *   process, or after WAIT_MAX_MS; the reason of the signal as soon as it is aborted
   */
  enter(key: string, waiter?: Waiter): Promise<void>;
  /** Lets the next one in. */
  leave(key: string): void;
};

const busy = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "Others are at work on the same right now, try again", {
    reason: BUSY,
    retryAfterSeconds: RETRY_SECONDS,
  });

/** Counts what waits in a process, by tenant and in all. */
const createWaitingRoom = (processMax: WaitingMax, tenantMax: WaitingMax) => {
  const all = { count: 0, bytes: 0 };
  const tenants = new Map<string, { count: number; bytes: number }>();
  const isOver = (held: WaitingMax, max: WaitingMax, bytes: number): boolean =>
    held.count + 1 > max.count || held.bytes + bytes > max.bytes;
  return {
    /** @returns what to call when it waits no more @throws DomainError BUSY where there is no room */
    take: ({ tenantId, bytes = 0 }: Waiter): (() => void) => {
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

type LanesOptions = {
  /** The longest wait, in ms. */
  waitMaxMs?: number;
  processMax?: WaitingMax;
  tenantMax?: WaitingMax;
};

export const createLanes = ({
  waitMaxMs = WAIT_MAX_MS,
  processMax = PROCESS_WAITING_MAX,
  tenantMax = TENANT_WAITING_MAX,
}: LanesOptions = {}): Lanes => {
  /** Who waits, for each lane that somebody is in. */
  const lines = new Map<string, Set<() => void>>();
  const room = createWaitingRoom(processMax, tenantMax);
  const tryEnter = (key: string): boolean => {
    if (lines.has(key)) return false;
    lines.set(key, new Set());
    return true;
  };
  return {
    tryEnter,
    enter: async (key, waiter = {}) => {
      const { signal } = waiter;
      signal?.throwIfAborted();
      if (tryEnter(key)) return;
      const line = lines.get(key)!;
      if (line.size >= LANE_WAITING_MAX) throw busy();
      const leaveRoom = room.take(waiter);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      line.add(resolve);
      const giveUp = (reason: unknown): void => {
        line.delete(resolve);
        reject(reason);
      };
      const timer = setTimeout(() => giveUp(busy()), waitMaxMs);
      const onGone = (): void => giveUp(signal?.reason);
      signal?.addEventListener("abort", onGone);
      try {
        await promise;
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onGone);
        leaveRoom();
      }
    },
    leave: (key) => {
      const line = lines.get(key);
      const [next] = line ?? [];
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
  readonly #waiter: Waiter;
  readonly #held = new Set<string>();

  constructor(lanes: Lanes, waiter: Waiter = {}) {
    this.#lanes = lanes;
    this.#waiter = waiter;
  }

  /**
   * Enters a lane until the transaction is over. A queue for a lock of the database would hold a connection
   * for each who waits, and those are few.
   * @throws OutOfTurn where another transaction of the process is in it: this one is undone, waits for its
   *   turn without a connection, and is run again
   */
  take(key: string): void {
    if (this.#held.has(key)) return;
    if (!this.#lanes.tryEnter(key)) throw new OutOfTurn(this, key);
    this.#held.add(key);
  }

  /** Whether the transaction is in a lane. */
  has(key: string): boolean {
    return this.#held.has(key);
  }

  /** Waits for a lane, with none held meanwhile: so no two wait for one another. */
  async wait(key: string): Promise<void> {
    this.release();
    await this.#lanes.enter(key, this.#waiter);
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

  constructor(turns: Turns, key: string) {
    super(`another transaction is in the lane ${key}`);
    this.#turns = turns;
    this.#key = key;
  }

  override prepare(): Promise<void> {
    return this.#turns.wait(this.#key);
  }
}
