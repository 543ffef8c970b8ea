import { KeyedSemaphore, Semaphore } from "./semaphore.ts";
import type { Waiter, WaitingRoom } from "./waiting-room.ts";

export type SharedSlotsOptions = {
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
