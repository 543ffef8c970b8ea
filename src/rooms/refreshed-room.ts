import type { App } from "../app.ts";
import { freeRoomId } from "./free-room-id.ts";
import { MirrorRoom, openRoomsOf } from "./mirror-room.ts";
import { type Refreshed, refreshPauseMs, type RefreshSlots } from "./refresh-slots.ts";
import { Refresher } from "./refresher.ts";
import type { Ticker } from "./ticker.ts";

/** A room that reads what it shows as a whole. */
type Rereading = { rereadSoon(): void };

/** As `openRoomsOf`, for rooms that read everything again. */
export const openRefreshedRoomsOf = (app: App, what: string): Ticker<Rereading> =>
  openRoomsOf(app, what, async (rooms) => {
    for (const room of rooms) room.rereadSoon();
  });

/** The ids of rooms of one list, which are opened one after another as they fill up. */
export type Shards = { idOf(shard: number): string; count: number; what: string };

/**
 * Base class of rooms in which a crowd watches a list: the list is read as a whole after changes, with pauses
 * that grow with its cost, and there may be several rooms of one list.
 */
export abstract class RefreshedRoom<S extends object> extends MirrorRoom<S> {
  protected abstract override readonly open: Ticker<Rereading>;
  protected abstract readonly slots: RefreshSlots;
  /** Pause between two reads of a constantly changing list, in ms. */
  protected abstract readonly pauseMs: { readonly min: number; readonly max: number };
  protected override readonly stateBytes = 16_384;
  readonly #disposed = new AbortController();
  readonly #refresher = new Refresher({
    everyMs: () => refreshPauseMs(this.pauseMs, { watchers: this.clients.length, rooms: this.open.count() }),
    run: () => this.slots.run({ ...this.owner(), signal: this.#disposed.signal }, () => this.refresh()),
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
    const { idOf, count, what } = this.shards();
    this.roomId = await freeRoomId(idOf, count, what);
  }

  /** Reads the list again, at once or when the pause is over. */
  rereadSoon(): void {
    this.refreshSoon();
  }

  protected refreshSoon(): void {
    this.#refresher.soon();
  }
}
