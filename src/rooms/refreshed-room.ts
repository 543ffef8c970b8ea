import type { App } from "../app.ts";
import { Bulkhead } from "../domain/kernel/bulkhead.ts";
import { retryLater } from "../domain/kernel/errors.ts";
import { PROCESS_ROOMS_MAX } from "./admission.ts";
import { MirrorRoom, openRoomsOf } from "./mirror-room.ts";
import { Coalescer, type Ticker } from "./pace.ts";
import { freeRoomId, type Shards } from "./room-ids.ts";

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
type Refreshed = {
  projectId: string;
  /** Undefined where a process of an earlier version has asked for the room. */
  tenantId?: string | undefined;
  /** Aborted when the room is disposed. */
  signal: AbortSignal;
};

const tooMany = () => retryLater("too many rooms are read at once: try again", "SERVER_BUSY");

/** A room has one refresh at a time, so no more can wait than there may be rooms. */
const slotsOf = (slots: number) =>
  new Bulkhead({ ofKey: { slots, waiting: PROCESS_ROOMS_MAX }, refusal: tooMany });

const [ofProjects, ofTenants] = [slotsOf(PROJECT_SLOTS), slotsOf(TENANT_SLOTS)];

/**
 * Bounds the refreshes of a process by project and by tenant, so that one with many rooms leaves the pool to
 * others. Further refreshes wait in the order of their arrival. Resolves or rejects as `refresh` does, once it
 * has had a slot; a disposed room has none any more.
 */
const withSlot = async (
  { projectId, tenantId, signal }: Refreshed,
  refresh: () => Promise<void>,
): Promise<void> => {
  const refreshOfTenant = () => ofTenants.run(tenantId ?? projectId, refresh, { signal });
  try {
    await ofProjects.run(projectId, refreshOfTenant, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
};

/** A room that reads what it shows as a whole. */
type Rereading = { rereadSoon(): void };

/** As `openRoomsOf`, for rooms that read everything again. */
export const openRefreshedRoomsOf = (app: App, what: string): Ticker<Rereading> =>
  openRoomsOf(app, what, async (rooms) => {
    for (const room of rooms) room.rereadSoon();
  });

/**
 * Base class of rooms in which a crowd watches a list: the list is read as a whole after changes, with pauses
 * that grow with its cost, and there may be several rooms of one list.
 */
export abstract class RefreshedRoom<S extends object> extends MirrorRoom<S> {
  protected abstract override readonly open: Ticker<Rereading>;
  /** Pause between two reads of a constantly changing list, in ms. */
  protected abstract readonly pauseMs: { readonly min: number; readonly max: number };
  protected override readonly stateBytes = 16_384;
  readonly #disposed = new AbortController();
  readonly #refresher = new Coalescer({
    everyMs: () => refreshPauseMs(this.pauseMs, { watchers: this.clients.length, rooms: this.open.count() }),
    run: () => withSlot({ ...this.owner(), signal: this.#disposed.signal }, () => this.refresh()),
    later: (delayMs, run) => this.later(delayMs, run),
    onError: (error) => this.report(error, "refresh"),
  });

  /** Whose list it is. */
  protected abstract owner(): Pick<Refreshed, "projectId" | "tenantId">;
  protected abstract shards(): Shards;
  /** Reads the list and shows it. */
  protected abstract refresh(): Promise<void>;

  protected override async load(): Promise<void> {
    this.onceDisposed(() => this.#disposed.abort());
    await this.#refresher.now();
    this.roomId = await freeRoomId(this.shards());
  }

  /** Reads the list again, at once or when the pause is over. */
  rereadSoon(): void {
    this.#refresher.soon();
  }
}
