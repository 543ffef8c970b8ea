import { nextTurn } from "./slices.ts";
import { StepBudget } from "./step-budget.ts";

/** Steps after which work lets everything else of the process have its turn: about 10 ms. */
const TURN_STEPS = 50_000;

/** A budget for work in pieces that takes turns with everything else of the process. */
export class PacedBudget extends StepBudget {
  #rested = 0;

  /** Gives way to others when enough was spent since the last time; call it between pieces. */
  async rest(): Promise<void> {
    if (this.spent - this.#rested < TURN_STEPS) return;
    this.#rested = this.spent;
    await nextTurn();
  }
}

/** Work in pieces: each value is the steps of the piece that comes next, and the return is the result. */
export type Pieces<T> = Generator<number, T, undefined>;

/**
 * Does the pieces one by one, giving way to others in between.
 * @throws StepsExceeded before the first piece for which the budget does not suffice
 */
export const paced = async <T>(pieces: Pieces<T>, budget: PacedBudget): Promise<T> => {
  let next = pieces.next();
  while (next.done !== true) {
    budget.charge(next.value);
    await budget.rest();
    next = pieces.next();
  }
  return next.value;
};

/** Steps of reading a whole JSON value. */
export const stepsOfValue = (value: unknown): number => {
  const read = new StepBudget(Infinity);
  read.chargeValue(value);
  return read.spent;
};
