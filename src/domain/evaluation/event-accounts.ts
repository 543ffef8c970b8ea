import { threadCpuMs } from "../kernel/cpu-clock.ts";
import { PacedBudget } from "../kernel/pace.ts";
import { StepBudget } from "../kernel/step-budget.ts";
import type { PlayerState } from "./player-state.ts";

/** Steps that the rules which one tracked event sets off may take together, derived events included. */
export const RULE_STEPS_MAX = 250_000;
/** Steps that counters, streaks, segments, badges and leaderboards may take for one tracked event. */
export const UPKEEP_STEPS_MAX = 250_000;
/** Steps that explaining those rules may take beside running them; what is left is not shown. */
export const EXPLAIN_STEPS_MAX = 250_000;
/**
 * Steps of what those rules may write: 500 short rows, or 600 kB in long ones. The rule that crosses it
 * writes to its end, and no further one fires.
 */
export const WRITTEN_STEPS_MAX = 200_000;
/** A definition of a project that evaluation spends steps on. */
export type Spender = {
  kind: "rule" | "badge" | "streak" | "segment" | "leaderboard";
  id: string;
  key: string;
};

/** A budget of one tracked event, and what has taken the most of it at once. */
class SpenderBudget extends StepBudget {
  dearest: { spender: Spender; steps: number } | undefined;

  /** Notes what was spent on a definition since `before`, the steps that had been spent then. */
  noteSpender(spender: Spender, before: number): void {
    const steps = this.spent - before;
    if (this.dearest === undefined || steps > this.dearest.steps) this.dearest = { spender, steps };
  }
}

/** What part of one event's evaluation may take of the processor, and of the database: `written`. */
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

/** What evaluation of one tracked event may take: rules cannot starve counters, nor the other way round. */
export type EventAccounts = {
  rules: EventAccount;
  upkeep: EventAccount;
  /** Pays for showing what rules saw, of an event that is explained. */
  explaining: EventAccount;
  isTold: boolean;
};

const accountsOf = (rules: EventAccount): EventAccounts => ({
  rules,
  // Levels and badges come once: what they write is counted, and never keeps the rest from being counted.
  upkeep: new EventAccount(UPKEEP_STEPS_MAX, Infinity),
  explaining: new EventAccount(EXPLAIN_STEPS_MAX, Infinity),
  isTold: false,
});

export const openAccounts = (): EventAccounts =>
  accountsOf(new EventAccount(RULE_STEPS_MAX, WRITTEN_STEPS_MAX));

/**
 * Steps that rules may take for all players whom one transaction changes outside of events: a request, or a
 * page of a job. Rules that hear of the players after that do not fire.
 */
export const CHANGE_STEPS_MAX = 2_000_000;
/** Steps of what those rules may write: as much as 20 effects of each player of a full page. */
export const CHANGE_WRITTEN_STEPS_MAX = 4_000_000;
/** Steps of an event beside what definitions take: of its rows, and of what is loaded with its player. */
export const EVENT_STEPS = 200;
/** Bytes of a player's document, as JSON, that are read and written again in one step. */
const LOADED_PER_STEP = 4;

/** Steps of having a player in hand: of reading what is kept in one document, and of writing it again. */
export const loadSteps = ({ docSize }: Pick<PlayerState, "docSize">): number =>
  docSize.bytes / LOADED_PER_STEP;

/** Steps of changing a player, beside what definitions take. */
export const PLAYER_STEPS = 200;

/**
 * Steps that a millisecond of CPU counts for at least: 2 s for all players, a fifth of the speed at which
 * steps take their time. Only what takes far longer than its steps say comes to it.
 */
const CHANGE_STEPS_PER_MS = 1_000;

/** What the players share whom one transaction changes outside of events. */
export class ChangeBudget extends PacedBudget {
  readonly written = new StepBudget(CHANGE_WRITTEN_STEPS_MAX);
  readonly #cpuMs: () => number;
  #openedMs = 0;

  /** @param cpuMs the CPU that this thread has taken, in ms */
  constructor(cpuMs = threadCpuMs) {
    super(CHANGE_STEPS_MAX);
    this.#cpuMs = cpuMs;
  }

  /** The accounts of the next player; `close` them before those of another are opened. */
  open(): EventAccounts {
    this.#openedMs = this.#cpuMs();
    const { isSpent, left } = this.written;
    const steps = isSpent ? 0 : Math.min(RULE_STEPS_MAX, this.left);
    return accountsOf(new EventAccount(steps, Math.min(WRITTEN_STEPS_MAX, left)));
  }

  /** Counts what a player has taken, and gives way to others. */
  async close(accounts: EventAccounts): Promise<void> {
    const timed = (this.#cpuMs() - this.#openedMs) * CHANGE_STEPS_PER_MS;
    this.spend(PLAYER_STEPS + Math.max(stepsOf(accounts), timed));
    this.written.spend(accounts.rules.written.spent);
    await this.rest();
  }
}

/** Steps that the accounts have spent, without what they write. */
export const stepsOf = ({ rules, upkeep, explaining }: EventAccounts): number =>
  rules.spent + upkeep.spent + explaining.spent;

/** Steps of what both accounts write. */
export const writtenOf = ({ rules, upkeep }: EventAccounts): number =>
  rules.written.spent + upkeep.written.spent;
