import type { RuleStep } from "../rule-event.ts";
import { type CompiledBudget, compileBudgets } from "./budgets.ts";
import type { RuleDocument } from "../language/document.ts";
import { type CompiledLimits, compileLimits } from "./limits.ts";
import { type Bucket, compileRollout } from "./rollout.ts";
import { compileSharedLimits, type SharedLimit } from "./shared-limits.ts";

/** What decides, after its conditions, whether a rule fires. */
export type RuleControls = {
  /** For one player. */
  limits: CompiledLimits | undefined;
  /** Over all players. */
  globalLimits: readonly SharedLimit[];
  budgets: readonly CompiledBudget[];
  rollout: ((playerId: string) => Bucket) | undefined;
  /** How the rule is named where it leads to other events. */
  step: RuleStep;
};

type Controlled = { id: string; key: string; isShadow: boolean; definition: RuleDocument };

/** Prepares a rule's limits, budgets and rollout. One in SHADOW counts for itself, beside what is real. */
export const compileControls = ({ id, key, isShadow, definition }: Controlled): RuleControls => {
  const mark = isShadow ? "~" : "";
  const { limits, rollout } = definition;
  return {
    limits: compileLimits(`${mark}${id}`, limits),
    globalLimits: compileSharedLimits(`${mark}rule:${id}`, limits),
    budgets: compileBudgets(`${mark}rule:${id}`, limits),
    rollout: compileRollout(key, rollout),
    step: { ruleId: id, ruleKey: key },
  };
};
