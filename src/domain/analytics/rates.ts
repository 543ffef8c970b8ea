/** Returns a share with six decimals: 0 of nothing. */
export const rateOf = (part: number, whole: number): number =>
  whole === 0 ? 0 : Math.round((part / whole) * 1e6) / 1e6;

/** Numbers of which the median is asked: as many as come, eight bytes each. */
export class Numbers {
  #kept = new Float64Array(16);
  #size = 0;

  add(value: number): void {
    if (this.#size === this.#kept.length) {
      const longer = new Float64Array(2 * this.#size);
      longer.set(this.#kept);
      this.#kept = longer;
    }
    this.#kept[this.#size++] = value;
  }

  /** The middle one, or the mean of both in the middle; null of none. */
  median(): number | null {
    if (this.#size === 0) return null;
    const sorted = this.#kept.subarray(0, this.#size).toSorted();
    return (sorted[(this.#size - 1) >> 1]! + sorted[this.#size >> 1]!) / 2;
  }
}
