import type { Outcome } from "./outcome.ts";

/** A rule as far as whoever observes evaluation knows it. */
export type ObservedRule = { id: string; key: string };

/**
 * Hears of every rule that evaluation has considered, fired or not; statistics are made of it. Called while a
 * batch is evaluated, which may still be undone, so it keeps what it heard apart until the commit.
 */
export type RuleObserver = {
  considered: (rule: ObservedRule, outcome: Outcome) => void;
};
