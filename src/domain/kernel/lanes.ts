import { KeyedSemaphore } from "./semaphore.ts";
import { Unprepared } from "./unprepared.ts";
import { busy, createWaitingRoom, type Waiter, type WaitingRoom } from "./waiting-room.ts";

/** Maximum transactions waiting in one lane, and their maximum wait in ms. */
const LANE_WAITING_MAX = 60;
const WAIT_MAX_MS = 10_000;
/**
 * Lanes that transactions of one tenant occupy at once: each holds a connection of the few of a process for
 * as long as its change takes.
 */
const TENANT_LANES = 2;

type LanesOptions = {
  /** Maximum wait in ms. */
  waitMaxMs?: number;
  room?: WaitingRoom;
};

/**
 * Lanes of a process by key. Each admits one transaction at a time, and those of one tenant TENANT_LANES
 * together; others wait in the order of their arrival.
 */
export class Lanes {
  readonly #lanes: KeyedSemaphore;
  readonly #tenants: KeyedSemaphore;

  constructor({ waitMaxMs = WAIT_MAX_MS, room = createWaitingRoom() }: LanesOptions = {}) {
    const common = { waitMaxMs, room, refusal: busy };
    this.#lanes = new KeyedSemaphore({ ...common, slots: 1, waitingMax: LANE_WAITING_MAX });
    // Bounded by the room, and by who is first in their lane.
    this.#tenants = new KeyedSemaphore({ ...common, slots: TENANT_LANES, waitingMax: Infinity });
  }

  /** Enters a lane if it is free. @returns whether it was entered */
  tryEnter(key: string, { tenantId }: Waiter = {}): boolean {
    if (!this.#lanes.tryAcquire(key)) return false;
    if (tenantId === undefined || this.#tenants.tryAcquire(tenantId)) return true;
    this.#lanes.release(key);
    return false;
  }

  /**
   * Enters a lane after all who wait for it.
   * @throws DomainError SERVICE_UNAVAILABLE BUSY where too much waits in the lane, for the tenant or in the
   * process, or after WAIT_MAX_MS; the reason of the signal as soon as it is aborted
   */
  async enter(key: string, waiter: Waiter = {}): Promise<void> {
    await this.#lanes.acquire(key, waiter);
    if (waiter.tenantId === undefined) return;
    try {
      await this.#tenants.acquire(waiter.tenantId, waiter);
    } catch (error) {
      this.#lanes.release(key);
      throw error;
    }
  }

  /** Leaves a lane and admits the next one. @param waiter as it was entered */
  leave(key: string, { tenantId }: Waiter = {}): void {
    this.#lanes.release(key);
    if (tenantId !== undefined) this.#tenants.release(tenantId);
  }
}

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
    if (!this.#lanes.tryEnter(key, this.#waiter)) throw new LaneOccupied(this, key);
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
    for (const key of this.#held) this.#lanes.leave(key, this.#waiter);
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
