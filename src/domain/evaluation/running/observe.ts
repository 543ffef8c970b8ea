import type { Outcome } from "./outcome.ts";

/** A rule as passed to observers of evaluation. */
export type ObservedRule = { id: string; key: string };

/**
 * Called for every rule that was considered, fired or not, for statistics. Called while a batch is evaluated,
 * which may still be rolled back, so results must be buffered until the commit.
 */
export type RuleObserver = {
  considered: (rule: ObservedRule, outcome: Outcome) => void;
};
