import { DomainError } from "../../kernel/errors.ts";
import { CHUNK_PLAYERS } from "./documents.ts";

/** Entries of the players of a chunk that are held at once: of some hundred MiB. */
const ENTRIES_MAX = 1 << 23;

/** Events of the players of a chunk, in any order, and then by player. */
export class Entries {
  #players = new Int32Array(1 << 14);
  #keys = new Float64Array(1 << 14);
  #counts = new Int32Array(1 << 14);
  size = 0;
  readonly #starts = new Int32Array(CHUNK_PLAYERS + 1);
  keys = new Float64Array(0);
  counts = new Int32Array(0);

  /** Adds events; those of one player and key that follow one another are one entry. */
  add(player: number, key: number, count: number): void {
    const last = this.size - 1;
    if (last >= 0 && this.#keys[last] === key && this.#players[last] === player) {
      this.#counts[last]! += count;
      return;
    }
    if (this.size === this.#players.length) this.#grow();
    this.#players[this.size] = player;
    this.#keys[this.size] = key;
    this.#counts[this.size++] = count;
  }

  #grow(): void {
    const [players, keys, counts] = [this.#players, this.#keys, this.#counts];
    const length = 2 * players.length;
    if (length > ENTRIES_MAX)
      throw new DomainError("VALIDATION_ERROR", "These are too many events at once: take a shorter range");
    (this.#players = new Int32Array(length)).set(players);
    (this.#keys = new Float64Array(length)).set(keys);
    (this.#counts = new Int32Array(length)).set(counts);
  }

  /** Puts the events of each player side by side, in the order in which they were added. */
  group(): void {
    const starts = this.#starts.fill(0);
    for (let i = 0; i < this.size; i++) starts[this.#players[i]! + 1]!++;
    for (let player = 0; player < CHUNK_PLAYERS; player++) starts[player + 1]! += starts[player]!;
    const places = starts.slice();
    if (this.keys.length < this.size) {
      this.keys = new Float64Array(this.#players.length);
      this.counts = new Int32Array(this.#players.length);
    }
    for (let i = 0; i < this.size; i++) {
      const place = places[this.#players[i]!]!++;
      this.keys[place] = this.#keys[i]!;
      this.counts[place] = this.#counts[i]!;
    }
    this.size = 0;
  }

  startOf(player: number): number {
    return this.#starts[player]!;
  }
}
