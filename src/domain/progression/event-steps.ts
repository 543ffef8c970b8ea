import { StepBudget } from "../step-budget.ts";
import { outboxRow } from "../work.ts";
import type { Heard, Root, RuleEvent, Turn } from "./turn.ts";

/** Steps that the rules which one tracked event sets off may take together, derived events included. */
export const RULE_STEPS_MAX = 250_000;
/** Steps that counters, streaks, segments, badges and leaderboards may take for one tracked event. */
export const UPKEEP_STEPS_MAX = 250_000;

/** A definition of a project that evaluation spends steps on. */
export type Spender = {
  kind: "rule" | "badge" | "streak" | "segment" | "leaderboard";
  id: string;
  key: string;
};

/** A budget of one tracked event, and what has taken the most of it at once. */
export class EventAccount extends StepBudget {
  dearest: { spender: Spender; steps: number } | undefined;

  /** Notes what was spent on a definition since `before`, the steps that had been spent then. */
  noteSpender(spender: Spender, before: number): void {
    const steps = this.spent - before;
    if (this.dearest === undefined || steps > this.dearest.steps) this.dearest = { spender, steps };
  }
}

/** What evaluation of one tracked event may take: rules cannot starve counters, nor the other way round. */
export type EventAccounts = { rules: EventAccount; upkeep: EventAccount; isTold: boolean };

export const openAccounts = (): EventAccounts => ({
  rules: new EventAccount(RULE_STEPS_MAX),
  upkeep: new EventAccount(UPKEEP_STEPS_MAX),
  isTold: false,
});

/**
 * Steps that rules may take for all players whom one transaction changes outside of events: a request, or a
 * page of a job. Rules that hear of the players after that do not fire.
 */
export const CHANGE_STEPS_MAX = 2_000_000;
/** Steps of an event beside what definitions take: of its rows, and of what is loaded with its player. */
export const EVENT_STEPS = 200;
/** Steps of changing a player, beside what definitions take. */
export const PLAYER_STEPS = 200;

/** The accounts of the next player whom a transaction changes. @param spent by those before */
export const openShare = ({ spent }: StepBudget): EventAccounts => ({
  ...openAccounts(),
  rules: new EventAccount(Math.max(0, Math.min(RULE_STEPS_MAX, CHANGE_STEPS_MAX - spent))),
});

/** Steps that both accounts have spent. */
export const stepsOf = ({ rules, upkeep }: EventAccounts): number => rules.spent + upkeep.spent;

/** Runs `run` with `account` paying for what is done. */
export const payBy = <T>(root: Root, account: EventAccount, run: () => T): T => {
  const { steps } = root;
  root.steps = account;
  try {
    return run();
  } finally {
    root.steps = steps;
  }
};

/** Where evaluation ran out of steps: the definition that had taken the most at once. */
export type StepsHit = { projectId: string; rootEventId: string; spender: Spender };

/** The dearest definition of the accounts that are spent; undefined while none is. */
export const stepsHitOf = ({ root, project }: Turn): StepsHit | undefined => {
  const { rules, upkeep } = root.accounts;
  const dearest = [rules, upkeep].find(({ isSpent }) => isSpent)?.dearest;
  return dearest && { projectId: project.projectId, rootEventId: root.id, spender: dearest.spender };
};

/** Tells, once for a root, that its steps did not suffice. */
export const tellSteps = (turn: Turn): void => {
  const { root, effects } = turn;
  const hit = root.accounts.isTold ? undefined : stepsHitOf(turn);
  if (!hit) return;
  root.accounts.isTold = true;
  const data = { ...hit.spender, rootEventId: hit.rootEventId, paused: false };
  const options = root.isTracked ? { eventId: root.id } : {};
  effects.outbox.push(outboxRow(hit.projectId, "event.steps_exhausted", data, options));
};

/** An event of the past as definitions look at it; what they take is charged to `steps`. */
export const pastEvent = (event: Omit<RuleEvent, "depth">, steps = new StepBudget(Infinity)): Heard => ({
  event: { ...event, depth: 0 },
  root: { steps },
});
