import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import type { Actor } from "./caller.ts";
import { insideTransaction } from "./transact.ts";
import { type Member, type Work, WorkState } from "./work.ts";

/** The result of a step for one of its items. */
export type Outcome<O> = { value: O } | { error: unknown };

/**
 * The order of steps in a shared transaction. Members wait for one another before each, so that a step that
 * all of them take is one.
 */
const ORDER = ["KEYS", "PLAN", "LOCKS", "READS", "TAKES", "CHANGE", "WRITES", "SHOW", "ANSWERS"] as const;
type Phase = (typeof ORDER)[number];
const placeOf = (phase: Phase): number => ORDER.indexOf(phase);

/** A step that is taken once for all requests that share a transaction: with a statement or a few. */
type Step<I, O> = {
  phase: Phase;
  /** Whether an item that succeeds has changed the database. */
  isWrite: boolean;
  /** Returns the outcomes in the order of the items; what it throws is an error of the whole transaction. */
  run(work: Work, items: readonly I[]): Promise<readonly Outcome<O>[]>;
};

// oxlint-disable-next-line typescript/no-explicit-any -- steps of every shape are taken by one transaction
type AnyStep = Step<any, any>;

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

/** A request that is to share a transaction. */
export type MemberRun = {
  by: Actor | undefined;
  /** Runs a function in the context of the request. */
  inContext: <T>(run: () => T) => T;
  run: (work: Work) => Promise<unknown>;
};

/** What became of a member: its result, its own error, or that it has to be run again. */
export type MemberOutcome = Outcome<unknown> | { apart: Apart["how"] };

type Taken = {
  member: RunningMember;
  item: unknown;
  resolve(value: unknown): void;
  reject(error: unknown): void;
};

class RunningMember implements Member {
  hasWritten = false;
  /** Steps that it waits for. */
  waiting = 0;
  /** What is to be done once all have succeeded. */
  readonly later: (() => void)[] = [];
  readonly place: number;
  em: Work["em"] | undefined;
  readonly #shared: SharedWork;

  constructor(shared: SharedWork, place: number) {
    this.#shared = shared;
    this.place = place;
  }

  take(step: object, item: unknown): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#shared.take(step as AnyStep, { member: this, item, resolve, reject });
    });
  }
}

/**
 * One transaction of several requests. Each runs by itself, until all that have not ended wait for a step;
 * then the first of these is taken for all who wait for it.
 */
class SharedWork {
  readonly #base: Work;
  readonly #inContext = AsyncLocalStorage.snapshot();
  readonly #steps = new Map<AnyStep, Taken[]>();
  /** Members that neither wait nor have ended. */
  #active = 0;
  #isTaking = false;
  #failure: { error: unknown } | undefined;

  constructor(base: Work) {
    this.#base = base;
  }

  /** @throws the error of a step, or of a member that had written */
  async run(runs: readonly MemberRun[]): Promise<MemberOutcome[]> {
    this.#active = runs.length;
    const members = runs.map((_, place) => new RunningMember(this, place));
    const outcomes = await Promise.all(runs.map((run, i) => this.#runOne(run, members[i]!)));
    if (this.#failure) throw this.#failure.error;
    for (const [i, outcome] of outcomes.entries())
      if ("value" in outcome) for (const act of members[i]!.later) act();
    return outcomes;
  }

  async #runOne({ by, inContext, run }: MemberRun, member: RunningMember): Promise<MemberOutcome> {
    const work = memberWork(this.#base, member, by);
    try {
      const value = await inContext(() => insideTransaction(() => run(work)));
      await member.em?.flush();
      return { value };
    } catch (error) {
      if (member.hasWritten) this.#fail(error);
      return error instanceof Apart ? { apart: error.how } : { error };
    } finally {
      this.#active--;
      this.#takeSoon();
    }
  }

  take(step: AnyStep, taken: Taken): void {
    if (this.#failure) return taken.reject(this.#failure.error);
    const others = this.#steps.get(step);
    if (others) others.push(taken);
    else this.#steps.set(step, [taken]);
    if (taken.member.waiting++ === 0) this.#active--;
    this.#takeSoon();
  }

  /** Later, so that a member may begin several steps at once. */
  #takeSoon(): void {
    queueMicrotask(() => {
      if (this.#active > 0 || this.#isTaking || this.#steps.size === 0) return;
      this.#isTaking = true;
      void this.#inContext(() => this.#takeFirst());
    });
  }

  async #takeFirst(): Promise<void> {
    const [step] = [...this.#steps.keys()].toSorted((a, b) => placeOf(a.phase) - placeOf(b.phase));
    const taken = this.#steps.get(step!)!.toSorted((a, b) => a.member.place - b.member.place);
    this.#steps.delete(step!);
    try {
      const outcomes = await step!.run(
        this.#base,
        taken.map(({ item }) => item),
      );
      assert(outcomes.length === taken.length, "a step has an outcome for each item");
      for (const [i, one] of taken.entries()) this.#end(one, step!, outcomes[i]!);
    } catch (error) {
      this.#fail(error);
      for (const one of taken) this.#end(one, step!, { error });
    } finally {
      this.#isTaking = false;
      this.#takeSoon();
    }
  }

  #end({ member, resolve, reject }: Taken, { isWrite }: AnyStep, outcome: Outcome<unknown>): void {
    if (--member.waiting === 0) this.#active++;
    if ("error" in outcome) return reject(outcome.error);
    member.hasWritten ||= isWrite;
    resolve(outcome.value);
  }

  /** Ends all: what the transaction has done is undone. */
  #fail(error: unknown): void {
    this.#failure ??= { error };
    const waiting = [...this.#steps.values()].flat();
    this.#steps.clear();
    for (const { member, reject } of waiting) {
      if (--member.waiting === 0) this.#active++;
      reject(error);
    }
  }
}

/** The work of one member: what it emits is kept until it is known that it succeeds. */
const memberWork = (base: Work, member: RunningMember, by: Actor | undefined): Work => {
  const later =
    <A extends unknown[]>(act: (...given: A) => void) =>
    (...given: A): void =>
      void member.later.push(() => act(...given));
  return {
    member,
    isShared: true,
    // What a member does by itself may have changed anything.
    get em() {
      member.hasWritten = true;
      return (member.em ??= base.em.fork({ keepTransactionContext: true }));
    },
    get db() {
      member.hasWritten = true;
      return base.db;
    },
    now: base.now,
    serverNow: base.serverNow,
    by,
    local: new WorkState(),
    retained: new WorkState(),
    lanes: {
      undone: 0,
      has: (key) => base.lanes.has(key),
      take: (key) => {
        throw new Apart("ALONE", `it needs the lane ${key}`);
      },
    },
    emit: later(base.emit),
    wroteOutbox: later(base.wroteOutbox),
    changed: later(base.changed),
    wakeEvents: later(base.wakeEvents),
    wakeJobs: later(base.wakeJobs),
    wakeWebhooks: later(base.wakeWebhooks),
    afterCommit: later(base.afterCommit),
    mark: () => {
      const { length } = member.later;
      return () => void (member.later.length = length);
    },
  };
};

/**
 * Runs requests in one transaction. One that fails before it has written leaves nothing behind and does not
 * affect the others.
 * @throws whatever makes the transaction fail as a whole: then each has to be run by itself
 */
export const runMembers = (work: Work, runs: readonly MemberRun[]): Promise<MemberOutcome[]> =>
  new SharedWork({ ...work, isShared: true }).run(runs);
