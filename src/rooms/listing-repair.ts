import { matchMaker } from "@colyseus/core";
import type { App } from "../app.ts";
import { type ThrottledWarning, throttledWarnings } from "../domain/kernel/throttled-log.ts";
import { openRooms } from "./open-rooms.ts";
import type { Listing } from "./listing.ts";
import { tickAll } from "./ticker.ts";

/** How often the listings of this process are compared with its rooms. */
const CHECK_EVERY_MS = 5_000;
/** Delay before a failed check is retried, for example while Redis is unavailable. */
const RETRY_MS = 1_000;
/** After a loss, joins wait this long until all processes have listed their rooms again. */
const SETTLE_MS = 1_500;

/** Keeps this process's room listings consistent with its actual rooms. */
export class ListingRepair {
  readonly #app: App;
  readonly #listing: Listing;
  readonly #warn: ThrottledWarning;
  #timer: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #settledAtMs = 0;
  #isChecking = false;
  #isAgain = false;
  #isStopped = false;

  constructor(app: App, listing: Listing) {
    this.#app = app;
    this.#listing = listing;
    this.#warn = throttledWarnings(app.log);
  }

  start(): void {
    if (this.#listing.ownIds) this.#timer = setInterval(() => void this.#check(), CHECK_EVERY_MS).unref();
  }

  stop(): void {
    this.#isStopped = true;
    clearInterval(this.#timer);
    clearTimeout(this.#retry);
  }

  /** Whether a room without a listing can be assumed not to exist. */
  get isSettled(): boolean {
    return performance.now() >= this.#settledAtMs;
  }

  /** Called when Redis was unavailable, came back empty, or took this process for dead. */
  onLost(): void {
    this.#settledAtMs = performance.now() + SETTLE_MS;
    this.#app.peers?.resubscribe();
    void this.#check();
    tickAll();
    // Requests anything that was published before the subscriptions were back.
    setTimeout(tickAll, SETTLE_MS).unref();
  }

  async #check(): Promise<void> {
    if (this.#isChecking) {
      this.#isAgain = true;
      return;
    }
    this.#isChecking = true;
    try {
      do {
        this.#isAgain = false;
        await this.#repair();
      } while (this.#isAgain);
    } catch (err) {
      this.#warn(err, "the listing of rooms could not be checked");
      clearTimeout(this.#retry);
      if (!this.#isStopped) this.#retry = setTimeout(() => void this.#check(), RETRY_MS).unref();
    } finally {
      this.#isChecking = false;
    }
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
