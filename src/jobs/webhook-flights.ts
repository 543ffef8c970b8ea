import { SLOW_MS } from "../domain/delivery/webhooks/delivering/circuit.ts";
import type { ClaimedDelivery } from "../domain/delivery/webhooks/delivering/claim.ts";

/**
 * Maximum numbers of concurrent attempts of a process, and in addition of attempts that have taken longer
 * than SLOW_MS. Together fewer than the sender's limit, so that none queues there behind hanging ones.
 */
const IN_FLIGHT_MAX = 64;
const SLOW_MAX = 160;
/** How often attempts are checked for slowness, in ms. */
const CHECK_EVERY_MS = 100;

/** An attempt in flight. */
export type Flight = {
  delivery: ClaimedDelivery;
  startMs: number;
  isSlow: boolean;
  abort: AbortController;
};

/** The attempts of a process in flight, and its free slots. */
export class Flights {
  readonly #all = new Set<Flight>();
  #slow = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #onRoom: () => void;

  /** @param onRoom is called when attempts were reclassified as slow, which frees slots for others */
  constructor(onRoom: () => void) {
    this.#onRoom = onRoom;
  }

  get count(): number {
    return this.#all.size;
  }

  /** Free slots for attempts, and for those that count as slow from the start. */
  get room(): { slots: number; suspectSlots: number } {
    const fast = this.#all.size - this.#slow;
    return { slots: Math.max(0, IN_FLIGHT_MAX - fast), suspectSlots: Math.max(0, SLOW_MAX - this.#slow) };
  }

  begin(delivery: ClaimedDelivery, isSlow: boolean): Flight {
    const flight = { delivery, startMs: performance.now(), isSlow, abort: new AbortController() };
    this.#all.add(flight);
    if (isSlow) this.#slow++;
    this.#timer ??= setInterval(() => this.#look(), CHECK_EVERY_MS).unref();
    return flight;
  }

  end(flight: Flight): void {
    if (!this.#all.delete(flight)) return;
    if (flight.isSlow) this.#slow--;
    if (this.#all.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  [Symbol.iterator](): Iterator<Flight> {
    return this.#all.values();
  }

  #look(): void {
    const before = performance.now() - SLOW_MS;
    const { slots } = this.room;
    for (const flight of this.#all) {
      // In order of their start.
      if (flight.startMs > before || this.#slow >= SLOW_MAX) break;
      if (flight.isSlow) continue;
      flight.isSlow = true;
      this.#slow++;
    }
    if (this.room.slots > slots) this.#onRoom();
  }
}
