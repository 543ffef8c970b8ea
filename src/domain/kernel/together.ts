import type { Work } from "./work.ts";

/** The result of a step for one of its items. */
export type Outcome<O> = { value: O } | { error: unknown };

/**
 * The order of steps in a shared transaction. Members wait for one another before each, so that a step that
 * all of them take is one.
 */
const ORDER = ["KEYS", "PLAN", "LOCKS", "READS", "TAKES", "CHANGE", "WRITES", "SHOW", "ANSWERS"] as const;
export type Phase = (typeof ORDER)[number];
export const placeOf = (phase: Phase): number => ORDER.indexOf(phase);

/** A step that is taken once for all requests that share a transaction: with a statement or a few. */
export type Step<I, O> = {
  phase: Phase;
  /** Whether an item that succeeds has changed the database. */
  isWrite: boolean;
  /** Returns the outcomes in the order of the items; what it throws is an error of the whole transaction. */
  run(work: Work, items: readonly I[]): Promise<readonly Outcome<O>[]>;
};

// oxlint-disable-next-line typescript/no-explicit-any -- steps of every shape are taken by one transaction
export type AnyStep = Step<any, any>;

/**
 * Creates a function that takes a step: in a shared transaction together with the other members that come to
 * it, in the order of their arrival, else alone.
 */
export const together =
  <I, O>(step: Step<I, O>) =>
  async (work: Work, item: I): Promise<O> => {
    if (work.member) return (await work.member.take(step, item)) as O;
    const [outcome] = await step.run(work, [item]);
    if ("error" in outcome!) throw outcome.error;
    return outcome!.value;
  };

/** Runs `run` for each item and returns the outcomes: for steps that are rarely taken by more than one. */
export const eachInTurn = async <I, O>(
  items: readonly I[],
  run: (item: I) => Promise<O>,
): Promise<Outcome<O>[]> => {
  const outcomes: Outcome<O>[] = [];
  for (const item of items) {
    try {
      outcomes.push({ value: await run(item) });
    } catch (error) {
      outcomes.push({ error });
    }
  }
  return outcomes;
};

/**
 * Thrown in a member that cannot share this transaction, before it has written anything. ALONE: it gets a
 * transaction of its own, in which it may wait for others. NEXT: it shares the next one.
 */
export class Apart extends Error {
  readonly how: "ALONE" | "NEXT";

  constructor(how: "ALONE" | "NEXT", why: string) {
    super(why);
    this.how = how;
  }
}
