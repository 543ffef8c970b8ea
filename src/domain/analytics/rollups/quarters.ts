import { DAY_MS, QUARTER_MS } from "./documents.ts";

/**
 * Stretches of time: the one at `i` is `[cutsMs[i], cutsMs[i + 1])`, the last one ends at `untilMs`.
 * `areCounted`: how many events there were in a stretch is of interest too, which is the default.
 */
export type Stretches = {
  cutsMs: readonly number[];
  untilMs: number;
  types?: readonly string[] | undefined;
  areCounted?: boolean | undefined;
};

const QUARTERS_OF_DAY = DAY_MS / QUARTER_MS;

/** Quarters of an hour in which a stretch begins or ends: of each, days with all of their events are read. */
const SPLIT_MAX = 8;
/** No stretch, and more than one. */
export const NONE = -1;
export const SPLIT = -2;

/** Which stretch each quarter of an hour is part of. */
export class Quarters {
  readonly first: number;
  readonly #stretches: Int32Array;
  readonly splitDays = new Set<number>();
  readonly #cutsMs: readonly number[];
  readonly #untilMs: number;
  splits = 0;

  constructor({ cutsMs, untilMs }: Stretches) {
    this.#cutsMs = cutsMs;
    this.#untilMs = untilMs;
    this.first = Math.floor(cutsMs[0]! / QUARTER_MS);
    const last = Math.ceil(Math.max(untilMs, cutsMs[0]!) / QUARTER_MS);
    this.#stretches = new Int32Array(last - this.first);
    const edges = [...cutsMs, untilMs].toSorted((a, b) => a - b);
    let [stretch, edge] = [NONE, 0];
    for (let i = 0; i < this.#stretches.length; i++) {
      const startMs = (this.first + i) * QUARTER_MS;
      while (stretch + 1 < cutsMs.length && cutsMs[stretch + 1]! <= startMs) stretch++;
      while (edge < edges.length && edges[edge]! <= startMs) edge++;
      const isSplit = edge < edges.length && edges[edge]! < startMs + QUARTER_MS;
      this.#stretches[i] = isSplit ? SPLIT : startMs >= untilMs ? NONE : stretch;
      if (!isSplit) continue;
      this.splits++;
      this.splitDays.add(Math.floor(startMs / DAY_MS));
    }
  }

  /** The stretch of a quarter by its number since 1970. */
  at(quarter: number): number {
    const place = quarter - this.first;
    return place < 0 || place >= this.#stretches.length ? NONE : this.#stretches[place]!;
  }

  /** The stretch that all quarters of a UTC day are part of, or of which none is; SPLIT: it is not one. */
  ofDay(day: number): number {
    if ((day + 1) * DAY_MS <= this.#cutsMs[0]! || day * DAY_MS >= this.#untilMs) return NONE;
    // Stretches are in the order of time: what is between two quarters of one is part of it too.
    const stretch = this.at(day * QUARTERS_OF_DAY);
    return stretch >= 0 && stretch === this.at((day + 1) * QUARTERS_OF_DAY - 1) ? stretch : SPLIT;
  }

  /** The stretch of a time. */
  of(ms: number): number {
    const stretch = this.at(Math.floor(ms / QUARTER_MS));
    if (stretch !== SPLIT) return stretch;
    if (ms < this.#cutsMs[0]! || ms >= this.#untilMs) return NONE;
    let [low, high] = [0, this.#cutsMs.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#cutsMs[middle]! <= ms) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

/** Of all time: a question that cuts it more often than documents can tell apart reads events. */
export const areDivisible = (stretches: Stretches): boolean => new Quarters(stretches).splits <= SPLIT_MAX;
