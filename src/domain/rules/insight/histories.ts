import { NIL_ID } from "../../kernel/ids.ts";
import { nextSlice } from "../../kernel/slices.ts";
import type { Work } from "../../kernel/work.ts";
import { HISTORY_PAGE, type HistoryEvent, type HistorySpan, readHistories } from "./history.ts";

/** Minimum number of events per statement, and of players whose events it looks for. */
const LEAST = 50;

export type HistoriesOf = {
  projectId: string;
  /** Their ids, in the order in which their histories are taken. */
  playerIds: readonly string[];
  span: HistorySpan;
};

/**
 * Histories of many players, taken one after the other and read ahead together: the number of statements
 * depends on the number of events. Holds HISTORY_PAGE events at most.
 */
export class Histories {
  readonly #work: Work;
  readonly #of: HistoriesOf;
  /** Events that were read and not taken, by place of the player. */
  #read = new Map<number, HistoryEvent[]>();
  /** Place of the first player whose history is not known to its end, and the last event known of it. */
  #next = 0;
  #after = NIL_ID;
  /** Number of players for the next statement: those who fitted into the last one, and as many more. */
  #players: number;

  constructor(work: Work, of: HistoriesOf) {
    this.#work = work;
    this.#of = of;
    this.#players = of.playerIds.length;
  }

  /**
   * Yields the history of the player at a place, which is higher each time, in pages.
   * @param room number of events that will be taken of this player and later ones, as far as is known
   */
  async *take(place: number, room: () => number): AsyncGenerator<HistoryEvent[]> {
    for (;;) {
      const events = this.#read.get(place);
      this.#read.delete(place);
      if (events) yield events;
      if (place < this.#next) return;
      await this.#readFrom(place, room());
    }
  }

  async #readFrom(place: number, room: number): Promise<void> {
    const { projectId, playerIds, span } = this.#of;
    const firstAfter = place === this.#next ? this.#after : NIL_ID;
    const players = playerIds
      .slice(place, place + this.#players)
      .map((playerId, i) => ({ playerId, afterId: i === 0 ? firstAfter : NIL_ID }));
    const limit = Math.max(LEAST, Math.min(HISTORY_PAGE, room));
    // The embedded database answers without returning to the event loop.
    await nextSlice();
    const rows = await readHistories(this.#work, projectId, players, { ...span, limit });
    this.#read = new Map();
    for (const { place: at, event } of rows) {
      const events = this.#read.get(place + at);
      if (events) events.push(event);
      else this.#read.set(place + at, [event]);
    }
    const last = rows.length < limit ? undefined : rows.at(-1)!;
    this.#next = place + (last?.place ?? players.length);
    this.#after = last?.event.id ?? NIL_ID;
    this.#players = Math.max(LEAST, 2 * (this.#next - place));
  }
}
