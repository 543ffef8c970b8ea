import { AsyncResource } from "node:async_hooks";
import { nextSlice } from "./slices.ts";

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

/** @param steps counts the cost of the task, and yields to other work of the process */
type Task = (steps: PacedBudget) => Promise<void>;

/** `startsAt`: virtual start time of the owner's next task, in steps. */
type Owner = { startsAt: number; waiting: (() => Promise<PacedBudget>)[] };

/**
 * Runs long tasks of many owners one at a time, with start-time fair queueing: the next task is that of the
 * owner with the fewest steps since arrival. A new owner waits for the running task and for at most one of
 * each other owner, however many theirs are.
 */
export class FairQueue {
  readonly #owners = new Map<string, Owner>();
  /** Virtual start time of the running task. */
  #at = 0;
  #isBusy = false;

  /** Runs a task when it is next. @throws errors of the task */
  run(owner: string, task: Task): Promise<void> {
    const known = this.#owners.get(owner) ?? { startsAt: 0, waiting: [] };
    this.#owners.set(owner, known);
    if (known.waiting.length === 0) known.startsAt = Math.max(known.startsAt, this.#at);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const begin = async (): Promise<PacedBudget> => {
      const steps = new PacedBudget(Infinity);
      await task(steps).then(resolve, reject);
      return steps;
    };
    // Whoever finds the queue idle runs the tasks of all, each in the context of who asked for it.
    known.waiting.push(AsyncResource.bind(begin));
    if (!this.#isBusy) void this.#runAll();
    return promise;
  }

  async #runAll(): Promise<void> {
    this.#isBusy = true;
    for (let owner = this.#first(); owner; owner = this.#first()) {
      this.#at = owner.startsAt;
      owner.startsAt += (await owner.waiting.shift()!()).spent;
    }
    this.#isBusy = false;
  }

  /** Returns the owner to be served next. Idle owners that have had no more than the others are removed. */
  #first(): Owner | undefined {
    let first: Owner | undefined;
    for (const [id, owner] of this.#owners) {
      if (owner.waiting.length === 0) {
        if (owner.startsAt <= this.#at) this.#owners.delete(id);
      } else if (!first || owner.startsAt < first.startsAt) {
        first = owner;
      }
    }
    if (!first) this.#owners.clear();
    return first;
  }
}
