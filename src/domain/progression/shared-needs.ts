import type { ProjectPlan } from "./plan.ts";
import type { SharedKey } from "./shared-counters.ts";

/** An event of a batch as far as it decides what has to be locked. */
export type Coming = { type: string; at: number };

/**
 * The shared counters that evaluating `events` may ask for: global limits and budgets of the rules that may
 * run, stock and limited editions that they may touch, through derived events too.
 */
export const sharedKeysOf = (_plan: ProjectPlan, _events: readonly Coming[]): SharedKey[] => [];
