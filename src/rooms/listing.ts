import { type IRoomCache, matchMaker, type MatchMakerDriver, type Room } from "@colyseus/core";
import type { App } from "../app.ts";
import type { ListingFilter } from "../domain/kernel/live-rooms.ts";
import { type ThrottledWarning, throttledWarnings } from "../domain/kernel/outages.ts";
import { Coalescer, tickAll } from "./pace.ts";

/**
 * A driver that may offer more listing queries than core needs; a driver without them has all rooms in this
 * process.
 */
export type Listing = MatchMakerDriver & {
  /** Ids of rooms that are listed for this process. */
  ownIds?(): Promise<Set<string>>;
  /** Number of rooms of a project in all processes. */
  countOf?(projectId: string): Promise<number>;
  /** Optional hook: whether to create a room here although one of the listed rooms could be joined. */
  maySpread?: (listed: readonly IRoomCache[]) => Promise<boolean>;
  findByIds(roomIds: string[]): Promise<Map<string, IRoomCache>>;
  /** Returns a superset of the rooms that match the filter, unordered, `max` of them at most. */
  some?(filter: ListingFilter, max: number): Promise<IRoomCache[]>;
};

/** The rooms of this process; its matchmaker is a singleton as well. */
const rooms = new Set<Room>();

/** Registers a room that is being created; the returned function removes it. */
export const trackRoom = (room: Room): (() => void) => {
  rooms.add(room);
  return () => void rooms.delete(room);
};

/** Returns the rooms that can be joined, without rooms in creation and discarded duplicates. */
export const openRooms = (): Room[] =>
  [...rooms].filter((room) => matchMaker.getLocalRoomById(room.roomId) === room);

/** Returns the number of rooms of each kind. */
export const countRooms = (): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { roomName } of openRooms()) counts[roomName] = (counts[roomName] ?? 0) + 1;
  return counts;
};

/** How often the listings of this process are compared with its rooms. */
const CHECK_EVERY_MS = 5_000;
/** After a loss, joins wait this long until all processes have listed their rooms again. */
const SETTLE_MS = 1_500;

/** Keeps this process's room listings consistent with its actual rooms. */
export class ListingRepair {
  readonly #app: App;
  readonly #listing: Listing;
  readonly #warn: ThrottledWarning;
  #timer: NodeJS.Timeout | undefined;
  #settledAtMs = 0;
  #isStopped = false;
  readonly #checks = new Coalescer({
    everyMs: () => 0,
    run: async () => (this.#isStopped ? undefined : this.#repair()),
    later: (delayMs, run) => void setTimeout(run, delayMs).unref(),
    onError: (err) => this.#warn(err, "the listing of rooms could not be checked"),
  });

  constructor(app: App, listing: Listing) {
    this.#app = app;
    this.#listing = listing;
    this.#warn = throttledWarnings(app.log);
  }

  start(): void {
    if (this.#listing.ownIds) this.#timer = setInterval(() => this.#checks.soon(), CHECK_EVERY_MS).unref();
  }

  stop(): void {
    this.#isStopped = true;
    clearInterval(this.#timer);
  }

  /** Whether a room without a listing can be assumed not to exist. */
  get isSettled(): boolean {
    return performance.now() >= this.#settledAtMs;
  }

  /** Called when Redis was unavailable, came back empty, or took this process for dead. */
  onLost(): void {
    this.#settledAtMs = performance.now() + SETTLE_MS;
    this.#app.peers?.resubscribe();
    this.#checks.soon();
    tickAll();
    // Requests anything that was published before the subscriptions were back.
    setTimeout(tickAll, SETTLE_MS).unref();
  }

  /**
   * Lists unlisted rooms and removes listings of rooms that are gone; a room whose id another process has
   * taken meanwhile yields to that one.
   */
  async #repair(): Promise<void> {
    const { log, metrics } = this.#app;
    const own = await this.#listing.ownIds!();
    const open = openRooms();
    const here = new Set(open.map(({ roomId }) => roomId));
    for (const roomId of own) if (!here.has(roomId)) await this.#listing.remove(roomId);
    const unlisted = open.filter(({ roomId }) => !own.has(roomId));
    if (unlisted.length === 0 || matchMaker.state !== matchMaker.MatchMakerState.READY) return;
    await matchMaker.restoreMissingRoomCaches();
    const listed = await this.#listing.findByIds(unlisted.map(({ roomId }) => roomId));
    for (const room of unlisted) {
      const holder = listed.get(room.roomId)?.processId;
      if (holder === matchMaker.processId) metrics.roomsRestored.inc();
      if (holder === undefined || holder === matchMaker.processId) continue;
      metrics.twinsClosed.inc();
      log.info({ room: room.roomName, roomId: room.roomId, holder }, "another process has this room");
      room.onBeforeShutdown();
    }
  }
}
