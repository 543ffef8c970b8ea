import { retryLater } from "../domain/kernel/errors.ts";
import { KeyedSemaphore } from "../domain/kernel/semaphore.ts";
import { PROCESS_ROOMS_MAX } from "./admission.ts";

/**
 * Refreshes of one project's rooms, and of one tenant's, that run at once in a process: each may hold a
 * connection of the pool.
 */
const PROJECT_SLOTS = 2;
const TENANT_SLOTS = 3;
/** Milliseconds that each watcher, and each such room of the process, adds to the pause between two reads. */
const PAUSE_FOR = { watcher: 0.5, room: 2.5 } as const;

/** `rooms`: open rooms of the same kind in this process. */
type Load = { watchers: number; rooms: number };

/** Pause between two reads of a constantly changing list: it grows with the cost of its reads. */
export const refreshPauseMs = (pause: { min: number; max: number }, { watchers, rooms }: Load): number =>
  Math.min(pause.max, Math.max(pause.min, PAUSE_FOR.watcher * watchers + PAUSE_FOR.room * rooms));

/** A room that is refreshed. */
export type Refreshed = {
  projectId: string;
  /** Undefined where a process of an earlier version has asked for the room. */
  tenantId?: string | undefined;
  /** Aborted when the room is disposed. */
  signal: AbortSignal;
};

const tooMany = () => retryLater("too many rooms are read at once: try again", "SERVER_BUSY");

/** A room has one refresh at a time, so no more can wait than there may be rooms. */
const slotsOf = (slots: number) =>
  new KeyedSemaphore({ slots, waitingMax: PROCESS_ROOMS_MAX, refusal: tooMany });

/**
 * Bounds the refreshes of a process by project and by tenant, so that one with many rooms leaves the pool to
 * others. Further refreshes wait in the order of their arrival.
 */
export class RefreshSlots {
  readonly #ofProjects = slotsOf(PROJECT_SLOTS);
  readonly #ofTenants = slotsOf(TENANT_SLOTS);

  /** Resolves or rejects as `refresh` does, once it has had a slot; a disposed room has none any more. */
  async run({ projectId, tenantId, signal }: Refreshed, refresh: () => Promise<void>): Promise<void> {
    try {
      await this.#ofProjects.run(
        projectId,
        () => this.#ofTenants.run(tenantId ?? projectId, refresh, { signal }),
        { signal },
      );
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}
