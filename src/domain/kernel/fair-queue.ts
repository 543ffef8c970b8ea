import { AsyncResource } from "node:async_hooks";
import { PacedBudget } from "./pace.ts";

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
