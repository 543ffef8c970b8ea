import type { App } from "../app.ts";
import { logFailure } from "./failure-log.ts";
import { LiveRoom } from "./live-room.ts";
import { createTicker, type Ticker } from "./ticker.ts";

/** How often open rooms are compared with the database, in case a message was lost, in ms. */
export const REREAD_EVERY_MS = 5_000;

/** A topic that announces changes of what a room shows. */
export type Source = { topic: string; receive(message: unknown): void };

/** Describes a topic whose messages are `M`. */
export const source = <M>(topic: string, receive: (message: M) => void): Source => ({
  topic,
  receive: (message) => receive(message as M),
});

/**
 * Creates the list of the open rooms of one kind in a process, for `MirrorRoom.open`. `reread` compares them
 * with the database, together, so that its cost hardly depends on their number.
 * @param what the rooms, for the log: "player rooms"
 */
export const openRoomsOf = <R>(
  app: Pick<App, "log" | "warnOfOutage">,
  what: string,
  reread: (rooms: readonly R[]) => Promise<void>,
): Ticker<R> =>
  createTicker({
    everyMs: REREAD_EVERY_MS,
    run: reread,
    onError: (error) => logFailure(app, error, { reread: what }),
  });

/**
 * Base class of rooms that show committed data and own nothing. It keeps the order in which no change is
 * missed: topics first, then the first read, then comparisons with the database for as long as the room is
 * open, since topics may lose messages.
 */
export abstract class MirrorRoom<S extends object> extends LiveRoom<S> {
  /** The open rooms of this kind in the process; see `openRoomsOf`. */
  protected abstract readonly open: Ticker<this>;

  /** Reads from the room's options what it shows. @returns the topics that announce changes of that */
  protected abstract follow(options: object): readonly Source[];

  /**
   * Reads what the room shows for the first time; messages that arrive meanwhile must be kept or lead to
   * another read. @throws as `begin`
   */
  protected abstract load(): Promise<void>;

  protected override async begin(options: object): Promise<void> {
    for (const { topic, receive } of this.follow(options)) await this.listen(topic, receive);
    await this.load();
    this.open.add(this);
    this.onceDisposed(() => this.open.remove(this));
  }
}
