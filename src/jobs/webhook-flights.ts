import { SLOW_MS } from "../domain/delivery/webhooks/delivering/circuit.ts";
import type { ClaimedDelivery } from "../domain/delivery/webhooks/delivering/claim.ts";

/**
 * Attempts of a process at the same time, and besides those, ones that have taken longer than SLOW_MS.
 * Together fewer than the sender takes at once, so that none waits there behind hanging ones.
 */
const IN_FLIGHT_MAX = 64;
const SLOW_MAX = 160;
/** How often attempts are looked at whether they have become slow, in ms. */
const LOOK_EVERY_MS = 100;

/** An attempt on its way. */
export type Flight = {
  delivery: ClaimedDelivery;
  startMs: number;
  isSlow: boolean;
  abort: AbortController;
};

/** The attempts of a process, and how many more there may be. */
export class Flights {
  readonly #all = new Set<Flight>();
  #slow = 0;
  #timer: NodeJS.Timeout | undefined;
  readonly #onRoom: () => void;

  /** @param onRoom is called when attempts have become slow, and so have made room for others */
  constructor(onRoom: () => void) {
    this.#onRoom = onRoom;
  }

  get count(): number {
    return this.#all.size;
  }

  /** Room for attempts, and for those that count as slow from their beginning. */
  get room(): { slots: number; suspectSlots: number } {
    const fast = this.#all.size - this.#slow;
    return { slots: Math.max(0, IN_FLIGHT_MAX - fast), suspectSlots: Math.max(0, SLOW_MAX - this.#slow) };
  }

  begin(delivery: ClaimedDelivery, isSlow: boolean): Flight {
    const flight = { delivery, startMs: performance.now(), isSlow, abort: new AbortController() };
    this.#all.add(flight);
    if (isSlow) this.#slow++;
    this.#timer ??= setInterval(() => this.#look(), LOOK_EVERY_MS).unref();
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
      // In the order of their beginnings.
      if (flight.startMs > before || this.#slow >= SLOW_MAX) break;
      if (flight.isSlow) continue;
      flight.isSlow = true;
      this.#slow++;
    }
    if (this.room.slots > slots) this.#onRoom();
  }
}
