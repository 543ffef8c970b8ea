import { compareText } from "../evaluation/language/text.ts";
import { DomainError } from "../kernel/errors.ts";
import { NONE, OTHER } from "./properties.ts";

/** A property whose values divide players, and how many of them are shown. */
export type Breakdown = { path: readonly string[]; limit: number };

/** Different values that one question counts. */
export const VALUES_MAX = 50_000;

/**
 * Counts by the values of a property. `Counts` add up element by element; the first is the one by which
 * values are ranked.
 */
export class CountsByValue {
  readonly #length: number;
  readonly #counts = new Map<string, Int32Array>();

  /** @param length of the counts of one value */
  constructor(length: number) {
    this.#length = length;
  }

  /** The counts of a value, to be added to. @throws DomainError VALIDATION_ERROR for too many values */
  of(value: string | null | undefined): Int32Array {
    const key = value ?? NONE;
    let counts = this.#counts.get(key);
    if (counts) return counts;
    if (this.#counts.size >= VALUES_MAX)
      throw new DomainError(
        "VALIDATION_ERROR",
        `The property has more than ${VALUES_MAX.toLocaleString("en")} values here: take one that has fewer`,
      );
    this.#counts.set(key, (counts = new Int32Array(this.#length)));
    return counts;
  }

  /** The most frequent values, of equals the first by name; behind them all others as one. */
  ranked(limit: number): { value: string; counts: Int32Array }[] {
    const all = [...this.#counts].map(([value, counts]) => ({ value, counts }));
    all.sort((a, b) => b.counts[0]! - a.counts[0]! || compareText(a.value, b.value));
    const rest = all.slice(limit);
    if (rest.length === 0) return all;
    const other = new Int32Array(this.#length);
    for (const { counts } of rest) for (let i = 0; i < other.length; i++) other[i]! += counts[i]!;
    return [...all.slice(0, limit), { value: OTHER, counts: other }];
  }
}
