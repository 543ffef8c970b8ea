import { PacedBudget } from "./pace.ts";

/** @param steps counts what the task takes, and lets others of the process have their turn */
type Task = (steps: PacedBudget) => Promise<void>;

/** `startsAt`: when the next task would start, in steps, if all owners were served at the same time. */
type Owner = { startsAt: number; waiting: (() => Promise<PacedBudget>)[] };

/**
 * Long tasks of many owners, one at a time. The next one is of the owner who has had the fewest steps since
 * coming (start-time fair queueing): whoever comes waits for the task that is under way, and for one of each
 * other owner at most, however many theirs are.
 */
export class FairLine {
  readonly #owners = new Map<string, Owner>();
  /** The start of the task that is under way. */
  #at = 0;
  #isBusy = false;

  /** Runs a task when its turn has come. @throws what the task throws */
  run(owner: string, task: Task): Promise<void> {
    const known = this.#owners.get(owner) ?? { startsAt: 0, waiting: [] };
    this.#owners.set(owner, known);
    if (known.waiting.length === 0) known.startsAt = Math.max(known.startsAt, this.#at);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    known.waiting.push(async () => {
      const steps = new PacedBudget(Infinity);
      await task(steps).then(resolve, reject);
      return steps;
    });
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

  /** The owner whose turn it is. Who waits for nothing, and has had no more than others, is let go. */
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
