/**
 * Bounds the CPU that work on behalf of a tenant may take. It is counted in steps and not in time, so that
 * the same input is accepted or refused on every machine, under any load.
 *
 * A step is about 50 to 200 ns of work: one comparison, one node of a JSON value, or TEXT_PER_STEP characters
 * of text that are read. Every loop whose length a tenant decides charges what it is about to do before it
 * does it.
 */

/** Characters of text whose comparison, hashing or copying counts as one step. */
export const TEXT_PER_STEP = 32;

/** Thrown by `StepBudget.charge` when a budget is spent. */
export class StepsExceeded extends Error {
  readonly budget: StepBudget;

  constructor(budget: StepBudget) {
    super(`takes more than ${budget.max} steps`);
    this.budget = budget;
  }
}

export class StepBudget {
  readonly max: number;
  spent = 0;

  constructor(max: number) {
    this.max = max;
  }

  /** Charges work that is about to be done. @throws StepsExceeded when no more is left */
  charge(steps: number): void {
    this.spent += steps;
    if (this.spent > this.max) throw new StepsExceeded(this);
  }

  /** What may still be spent. */
  get left(): number {
    return Math.max(0, this.max - this.spent);
  }

  /** Whether more has been spent than there was. */
  get isSpent(): boolean {
    return this.spent > this.max;
  }

  /**
   * Notes work that is bounded by itself and must not be left half done, without throwing: whoever takes up
   * the next piece asks `isSpent` before.
   */
  spend(steps: number): void {
    this.spent += steps;
  }

  /** Charges for reading `text` once. @throws StepsExceeded */
  chargeText(text: string): void {
    this.charge(1 + Math.floor(text.length / TEXT_PER_STEP));
  }

  /**
   * Charges for walking a whole JSON value once: a step for each node, more for long names and texts. Any
   * depth is walked.
   * @throws StepsExceeded as soon as the value is known to be too large; the walk itself ends there
   */
  chargeValue(value: unknown): void {
    const open: object[] = [];
    this.#chargeNode(value, open);
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      if (Array.isArray(next)) {
        for (const item of next) this.#chargeNode(item, open);
        continue;
      }
      for (const name of Object.keys(next)) {
        this.chargeText(name);
        this.#chargeNode((next as Record<string, unknown>)[name], open);
      }
    }
  }

  /** Charges for a node itself; one that has parts waits in `open`. */
  #chargeNode(node: unknown, open: object[]): void {
    if (typeof node === "string") return this.chargeText(node);
    this.charge(1);
    if (node !== null && typeof node === "object") open.push(node);
  }
}
