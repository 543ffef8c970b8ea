const CHUNK_MAX = 512;

/**
 * A sorted list with access by position: chunks of at most 512 values with a Fenwick tree over the chunk
 * sizes (https://doi.org/10.1002/spe.4380240306). Insert, remove, count and access by position are
 * sub-linear. `compare` must be a total order in which equal values are the same value.
 */
export class OrderedList<T> {
  readonly #compare: (a: T, b: T) => number;
  readonly #chunks: T[][] = [[]];
  /**
   * 1-based prefix sums of chunk sizes; undefined after a chunk was added or removed, until the next count.
   */
  #sums: Int32Array | undefined;
  #size = 0;

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#size;
  }

  insert(value: T): void {
    const [at, offset] = this.#locate(value);
    const chunk = this.#chunks[at]!;
    chunk.splice(offset, 0, value);
    this.#size++;
    if (chunk.length <= CHUNK_MAX) {
      this.#adjust(at, 1);
      return;
    }
    this.#chunks.splice(at + 1, 0, chunk.splice(CHUNK_MAX >> 1));
    this.#sums = undefined;
  }

  /** Removes the value that compares equal. @returns whether there was one */
  remove(value: T): boolean {
    const [at, offset] = this.#locate(value);
    const chunk = this.#chunks[at]!;
    const found = chunk[offset];
    if (found === undefined || this.#compare(found, value) !== 0) return false;
    chunk.splice(offset, 1);
    this.#size--;
    if (chunk.length > 0 || this.#chunks.length === 1) {
      this.#adjust(at, -1);
      return true;
    }
    this.#chunks.splice(at, 1);
    this.#sums = undefined;
    return true;
  }

  /** Returns how many values come before `value`, which need not be in the list. */
  countBefore(value: T): number {
    const [at, offset] = this.#locate(value);
    const sums = this.#prefixSums();
    let count = offset;
    for (let i = at; i > 0; i -= i & -i) count += sums[i]!;
    return count;
  }

  /** Returns up to `limit` values from the 0-based position `start` on. */
  range(start: number, limit: number): T[] {
    const sums = this.#prefixSums();
    let at = 0;
    let rest = start;
    for (let step = 2 ** Math.floor(Math.log2(this.#chunks.length)); step >= 1; step /= 2) {
      if (at + step < sums.length && sums[at + step]! <= rest) {
        at += step;
        rest -= sums[at]!;
      }
    }
    const values: T[] = [];
    for (; at < this.#chunks.length && values.length < limit; at++, rest = 0) {
      const chunk = this.#chunks[at]!;
      for (let i = rest; i < chunk.length && values.length < limit; i++) values.push(chunk[i]!);
    }
    return values;
  }

  /** Returns chunk and offset of the first value that does not come before `value`. */
  #locate(value: T): [chunk: number, offset: number] {
    const chunks = this.#chunks;
    let low = 0;
    let high = chunks.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      const chunk = chunks[middle]!;
      if (this.#compare(chunk[chunk.length - 1]!, value) < 0) low = middle + 1;
      else high = middle;
    }
    const chunk = chunks[low]!;
    let from = 0;
    let to = chunk.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.#compare(chunk[middle]!, value) < 0) from = middle + 1;
      else to = middle;
    }
    return [low, from];
  }

  #adjust(at: number, change: 1 | -1): void {
    const sums = this.#sums;
    if (sums === undefined) return;
    for (let i = at + 1; i < sums.length; i += i & -i) sums[i]! += change;
  }

  #prefixSums(): Int32Array {
    if (this.#sums) return this.#sums;
    const sums = new Int32Array(this.#chunks.length + 1);
    for (let i = 1; i < sums.length; i++) {
      sums[i]! += this.#chunks[i - 1]!.length;
      const parent = i + (i & -i);
      if (parent < sums.length) sums[parent]! += sums[i]!;
    }
    this.#sums = sums;
    return sums;
  }
}
