import { DomainError } from "./errors.ts";
import { BUSY } from "./outages.ts";
import { Unprepared } from "./unprepared.ts";

/** Maximum transactions waiting in one lane, and their maximum wait in ms. */
const LANE_WAITING_MAX = 60;
const WAIT_MAX_MS = 10_000;

/** Maximum waiting transactions, and bytes of the requests that they hold meanwhile. */
type WaitingMax = { count: number; bytes: number };

const MIB = 1024 * 1024;
/** Limits of all callers' transactions waiting in a process, over all lanes. */
const PROCESS_WAITING_MAX: WaitingMax = { count: 600, bytes: 64 * MIB };
/** The same for one tenant: a quarter of it. */
const TENANT_WAITING_MAX: WaitingMax = { count: 150, bytes: 16 * MIB };

/** Seconds after which a rejected caller may retry. */
const RETRY_SECONDS = 1;

/** The originator of a waiting transaction. */
type Waiter = {
  /** Undefined where the server acts by itself: then only the lane is bounded. */
  tenantId?: string | undefined;
  /** Size of the request held in memory while it waits. */
  bytes?: number | undefined;
  /** Aborted when the caller has gone. */
  signal?: AbortSignal | undefined;
};

/** Lanes of a process by key. Each admits one transaction at a time; others wait in order of arrival. */
export type Lanes = {
  /** Enters a lane if it is free. @returns whether it was entered */
  tryEnter(key: string): boolean;
  /**
   * Enters a lane after all who wait in it.
   * @throws DomainError SERVICE_UNAVAILABLE BUSY where too much waits in the lane, for the tenant or in the
   * process, or after WAIT_MAX_MS; the reason of the signal as soon as it is aborted
   */
  enter(key: string, waiter?: Waiter): Promise<void>;
  /** Leaves a lane and admits the next one. */
  leave(key: string): void;
};

const busy = (): DomainError =>
  new DomainError("SERVICE_UNAVAILABLE", "Other requests are changing the same data right now: try again", {
    reason: BUSY,
    retryAfterSeconds: RETRY_SECONDS,
  });

/** Counts what waits in a process, by tenant and in all. */
const createWaitLimits = (processMax: WaitingMax, tenantMax: WaitingMax) => {
  const all = { count: 0, bytes: 0 };
  const tenants = new Map<string, { count: number; bytes: number }>();
  const isOver = (held: WaitingMax, max: WaitingMax, bytes: number): boolean =>
    held.count + 1 > max.count || held.bytes + bytes > max.bytes;
  return {
    /**
     * @returns a function to be called when the wait is over @throws DomainError BUSY when the limits are
     * reached
     */
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
  /** Maximum wait in ms. */
  waitMaxMs?: number;
  processMax?: WaitingMax;
  tenantMax?: WaitingMax;
};

export const createLanes = ({
  waitMaxMs = WAIT_MAX_MS,
  processMax = PROCESS_WAITING_MAX,
  tenantMax = TENANT_WAITING_MAX,
}: LanesOptions = {}): Lanes => {
  /** Waiters of each occupied lane. */
  const lines = new Map<string, Set<() => void>>();
  const room = createWaitLimits(processMax, tenantMax);
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

/** The lanes that one transaction occupies, also across its retries. */
export class LaneHolds {
  /** How often the transaction was rolled back to prepare something. */
  undone = 0;
  readonly #lanes: Lanes;
  readonly #waiter: Waiter;
  readonly #held = new Set<string>();

  constructor(lanes: Lanes, waiter: Waiter = {}) {
    this.#lanes = lanes;
    this.#waiter = waiter;
  }

  /**
   * Enters a lane until the transaction is over. Waiting for a database lock instead would hold one of the
   * few connections per waiter.
   * @throws LaneOccupied where another transaction of the process occupies it: this one is rolled back, waits
   * for the lane without a connection, and is retried
   */
  take(key: string): void {
    if (this.#held.has(key)) return;
    if (!this.#lanes.tryEnter(key)) throw new LaneOccupied(this, key);
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

class LaneOccupied extends Unprepared {
  readonly #holds: LaneHolds;
  readonly #key: string;

  constructor(holds: LaneHolds, key: string) {
    super(`another transaction is in the lane ${key}`);
    this.#holds = holds;
    this.#key = key;
  }

  override prepare(): Promise<void> {
    return this.#holds.wait(this.#key);
  }
}
