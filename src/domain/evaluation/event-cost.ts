import { z } from "zod";

/**
 * Steps that the rules triggered by one tracked event may take together, derived events included: one for each
 * rule and each of its conditions, and ACTION_STEPS for each action. The same event takes the same steps on
 * every machine.
 */
export const RULE_STEPS_MAX = 250_000;
/** How long they may take whatever their steps, in ms: long texts and lists take longer than others. */
const RULES_MS = 1_000;
/** Steps after which the time is looked at. */
const LOOK_STEPS = 1_000;
export const ACTION_STEPS = 10;
/**
 * Bytes that those rules may write, as JSON and ROW_BYTES more for each row: 900 short rows. The rule that
 * exceeds it completes its writes, and no further one fires.
 */
export const WRITTEN_MAX_BYTES = 1024 * 1024;
export const ROW_BYTES = 1_000;
/**
 * The same for all players changed outside events by one transaction: a request, or a page of a job. Rules
 * triggered by further players do not fire.
 */
export const CHANGE_STEPS_MAX = 2_000_000;
export const CHANGE_WRITTEN_MAX_BYTES = 20 * WRITTEN_MAX_BYTES;

/** A definition of a project, as what is told of evaluation names it. */
export const Spender = z.object({
  kind: z.enum(["rule", "badge", "streak", "segment", "leaderboard", "quest", "adventure"]),
  id: z.string(),
  key: z.string(),
});
export type Spender = z.output<typeof Spender>;

/** What is spent of a maximum, and who has spent most at once. */
class Spending {
  readonly max: number;
  spent = 0;
  dearest: { spender: Spender; amount: number } | undefined;

  constructor(max: number) {
    this.max = max;
  }

  get isSpent(): boolean {
    return this.spent > this.max;
  }

  /** Records what a definition has spent since `before`. */
  record(spender: Spender, before: number): void {
    const amount = this.spent - before;
    if (amount > (this.dearest?.amount ?? 0)) this.dearest = { spender, amount };
  }
}

/** Cost of the evaluation of one tracked event. */
export class EventCost {
  readonly steps: Spending;
  /** Bytes written by rules. */
  readonly written: Spending;
  /** Bytes written by everything else: levels and badges are reached once, so it has no maximum. */
  others = 0;
  isTold = false;
  #isLate = false;
  #lookAt = LOOK_STEPS;
  #untilMs: number | undefined;

  constructor(stepsMax = RULE_STEPS_MAX, writtenMax = WRITTEN_MAX_BYTES) {
    this.steps = new Spending(stepsMax);
    this.written = new Spending(writtenMax);
  }

  /** Adds steps of rules. @returns whether no more may be taken */
  take(steps: number): boolean {
    this.steps.spent += steps;
    if (this.steps.spent >= this.#lookAt) {
      this.#lookAt = this.steps.spent + LOOK_STEPS;
      this.#untilMs ??= performance.now() + RULES_MS;
      this.#isLate = performance.now() > this.#untilMs;
    }
    return this.#isLate || this.steps.isSpent;
  }

  get isSpent(): boolean {
    return this.#isLate || this.steps.isSpent || this.written.isSpent;
  }

  /** The rule that took most where the maximum did not suffice; undefined where it did. */
  get exceededBy(): Spender | undefined {
    if (this.written.isSpent) return this.written.dearest?.spender;
    return this.isSpent ? this.steps.dearest?.spender : undefined;
  }
}

/** Cost of the players changed outside events by one transaction. */
export class ChangeCost {
  #steps = 0;
  #written = 0;

  /** Opens the cost of the next player; `close` it before opening that of another. */
  open(): EventCost {
    const steps = Math.min(RULE_STEPS_MAX, Math.max(0, CHANGE_STEPS_MAX - this.#steps));
    return new EventCost(
      this.#written > CHANGE_WRITTEN_MAX_BYTES ? 0 : steps,
      Math.min(WRITTEN_MAX_BYTES, Math.max(0, CHANGE_WRITTEN_MAX_BYTES - this.#written)),
    );
  }

  close({ steps, written }: EventCost): void {
    this.#steps += steps.spent;
    this.#written += written.spent;
  }
}
