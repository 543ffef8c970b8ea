import { threadCpuMs } from "../kernel/cpu-clock.ts";
import { PacedBudget, StepBudget } from "../kernel/pace.ts";
import type { PlayerState } from "./player-state.ts";

/** Steps that the rules triggered by one tracked event may take together, derived events included. */
export const RULE_STEPS_MAX = 250_000;
/** Steps that counters, streaks, segments, badges and leaderboards may take for one tracked event. */
export const UPKEEP_STEPS_MAX = 250_000;
/** Steps that explaining those rules may take besides running them; the remainder is not shown. */
export const EXPLAIN_STEPS_MAX = 250_000;
/**
 * Steps of what those rules may write: 500 short rows, or 600 kB in long ones. The rule that exceeds it
 * completes its writes, and no further one fires.
 */
export const WRITTEN_STEPS_MAX = 200_000;
/** A definition of a project that evaluation spends steps on. */
export type Spender = {
  kind: "rule" | "badge" | "streak" | "segment" | "leaderboard" | "quest" | "adventure";
  id: string;
  key: string;
};

/** A budget of one tracked event, with the most expensive single definition. */
class SpenderBudget extends StepBudget {
  dearest: { spender: Spender; steps: number } | undefined;

  /** Records what was spent on a definition since `before`, the steps spent at that time. */
  recordSpender(spender: Spender, before: number): void {
    const steps = this.spent - before;
    if (this.dearest === undefined || steps > this.dearest.steps) this.dearest = { spender, steps };
  }
}

/** CPU budget of a part of one event's evaluation, and its budget of writes: `written`. */
export class EventAccount extends SpenderBudget {
  readonly written: SpenderBudget;

  constructor(max: number, writtenMax: number) {
    super(max);
    this.written = new SpenderBudget(writtenMax);
  }

  override get isSpent(): boolean {
    return super.isSpent || this.written.isSpent;
  }
}

/** Budgets of the evaluation of one tracked event: rules cannot starve counters, nor the other way round. */
export type EventAccounts = {
  rules: EventAccount;
  upkeep: EventAccount;
  /** Pays for explaining rules, for an event that is traced. */
  explaining: EventAccount;
  isTold: boolean;
};

const accountsOf = (rules: EventAccount): EventAccounts => ({
  rules,
  // Levels and badges are reached once: their writes are counted, but never limit the rest.
  upkeep: new EventAccount(UPKEEP_STEPS_MAX, Infinity),
  explaining: new EventAccount(EXPLAIN_STEPS_MAX, Infinity),
  isTold: false,
});

export const openAccounts = (): EventAccounts =>
  accountsOf(new EventAccount(RULE_STEPS_MAX, WRITTEN_STEPS_MAX));

/**
 * Steps that rules may take for all players changed outside events by one transaction: a request, or a page
 * of a job. Rules triggered by further players do not fire.
 */
export const CHANGE_STEPS_MAX = 2_000_000;
/** Steps of what those rules may write: as much as 20 effects of each player of a full page. */
export const CHANGE_WRITTEN_STEPS_MAX = 4_000_000;
/** Steps of an event besides those of definitions: of its rows, and of loading its player. */
export const EVENT_STEPS = 200;
/** Bytes of a player's document, as JSON, that are read and written in one step. */
const LOADED_PER_STEP = 4;

/** Returns the steps of loading a player: of reading the state document, and of writing it again. */
export const loadSteps = ({ docSize }: Pick<PlayerState, "docSize">): number =>
  docSize.bytes / LOADED_PER_STEP;

/** Steps of changing a player, besides those of definitions. */
export const PLAYER_STEPS = 200;

/**
 * Minimum steps charged per ms of CPU: 2 s for all players, at a fifth of the usual speed of steps. Only
 * relevant where the steps are grossly underestimated.
 */
const CHANGE_STEPS_PER_MS = 1_000;

/** Shared budget of the players changed outside events by one transaction. */
export class ChangeBudget extends PacedBudget {
  readonly written = new StepBudget(CHANGE_WRITTEN_STEPS_MAX);
  readonly #cpuMs: () => number;
  #openedMs = 0;

  /** @param cpuMs CPU time of this thread, in ms */
  constructor(cpuMs = threadCpuMs) {
    super(CHANGE_STEPS_MAX);
    this.#cpuMs = cpuMs;
  }

  /** Opens the accounts of the next player; `close` them before opening those of another. */
  open(): EventAccounts {
    this.#openedMs = this.#cpuMs();
    const { isSpent, left } = this.written;
    const steps = isSpent ? 0 : Math.min(RULE_STEPS_MAX, this.left);
    return accountsOf(new EventAccount(steps, Math.min(WRITTEN_STEPS_MAX, left)));
  }

  /** Charges the steps of a player, and yields to the event loop. */
  async close(accounts: EventAccounts): Promise<void> {
    const timed = (this.#cpuMs() - this.#openedMs) * CHANGE_STEPS_PER_MS;
    this.spend(PLAYER_STEPS + Math.max(stepsOf(accounts), timed));
    this.written.spend(accounts.rules.written.spent);
    await this.pause();
  }
}

/** Returns the steps that the accounts have spent, without those of writes. */
export const stepsOf = ({ rules, upkeep, explaining }: EventAccounts): number =>
  rules.spent + upkeep.spent + explaining.spent;

/** Returns the steps of the writes of both accounts. */
export const writtenOf = ({ rules, upkeep }: EventAccounts): number =>
  rules.written.spent + upkeep.written.spent;
