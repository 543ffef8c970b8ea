import type { CompiledRule } from "./compile.ts";
import type { Outcome } from "./run.ts";

/**
 * Hears of every rule that evaluation has considered, fired or not; statistics are made of it. Called while a
 * batch is evaluated, which may still be undone, so it keeps what it heard apart until the commit.
 */
export type RuleObserver = {
  considered(rule: CompiledRule, outcome: Outcome): void;
};
