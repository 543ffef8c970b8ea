/**
 * Bounds the CPU time of work on behalf of a tenant. It is counted in steps instead of time, so that the same
 * input is accepted or rejected on every machine, under any load.
 *
 * A step is about 50 to 200 ns of work: one comparison, one node of a JSON value, or reading TEXT_PER_STEP
 * characters of text. Every loop whose length a tenant decides charges its work before doing it.
 */

/** Characters of text whose comparison, hashing or copying counts as one step. */
export const TEXT_PER_STEP = 32;

/** Thrown by `StepBudget.charge` when a budget is exceeded. */
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

  /** Charges work before it is done. @throws StepsExceeded when the budget is exceeded */
  charge(steps: number): void {
    this.spent += steps;
    if (this.spent > this.max) throw new StepsExceeded(this);
  }

  /** Remaining steps. */
  get left(): number {
    return Math.max(0, this.max - this.spent);
  }

  /** Returns whether the budget has been exceeded. */
  get isSpent(): boolean {
    return this.spent > this.max;
  }

  /**
   * Records work that is bounded by itself and must not be interrupted, without throwing: callers check
   * `isSpent` before the next piece.
   */
  spend(steps: number): void {
    this.spent += steps;
  }

  /** Charges for reading `text` once. @throws StepsExceeded */
  chargeText(text: string): void {
    this.charge(1 + Math.floor(text.length / TEXT_PER_STEP));
  }

  /**
   * Charges for walking a whole JSON value once, of any depth: a step for each node, more for long names and
   * texts.
   * @throws StepsExceeded as soon as the value is known to be too large; the walk ends there
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

  /** Charges for a node itself; one with children is added to `open`. */
  #chargeNode(node: unknown, open: object[]): void {
    if (typeof node === "string") return this.chargeText(node);
    this.charge(1);
    if (node !== null && typeof node === "object") open.push(node);
  }
}
