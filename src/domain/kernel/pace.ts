import { nextSlice } from "./slices.ts";
import { StepBudget } from "./step-budget.ts";

/** Steps after which work yields to the event loop: about 10 ms. */
const SLICE_STEPS = 50_000;

/** A budget for work in slices that shares the event loop with everything else in the process. */
export class PacedBudget extends StepBudget {
  #pausedAt = 0;

  /** Yields if enough was spent since the last time; to be called between slices. */
  async pause(): Promise<void> {
    if (this.spent - this.#pausedAt < SLICE_STEPS) return;
    this.#pausedAt = this.spent;
    await nextSlice();
  }
}

/** Work in slices: each value is the cost of the next slice in steps; the return value is the result. */
export type Pieces<T> = Generator<number, T, undefined>;

/**
 * Runs the slices one by one, yielding to the event loop in between.
 * @throws StepsExceeded before the first slice that exceeds the budget
 */
export const paced = async <T>(pieces: Pieces<T>, budget: PacedBudget): Promise<T> => {
  let next = pieces.next();
  while (next.done !== true) {
    budget.charge(next.value);
    await budget.pause();
    next = pieces.next();
  }
  return next.value;
};

/** Returns the steps of reading a whole JSON value. */
export const stepsOfValue = (value: unknown): number => {
  const read = new StepBudget(Infinity);
  read.chargeValue(value);
  return read.spent;
};
