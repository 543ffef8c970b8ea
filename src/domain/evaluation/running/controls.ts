import type { CapSet } from "../caps/cap.ts";
import type { RuleStep } from "../rule-event.ts";
import { type CompiledBudget, compileBudgets } from "./budgets.ts";
import type { RuleDocument } from "../language/document.ts";
import { type CompiledLimits, compileLimits } from "./limits.ts";
import { type Bucket, compileRollout } from "./rollout.ts";
import { compileSharedLimits, type SharedLimit } from "./shared-limits.ts";

/** Checks that decide, after its conditions, whether a rule fires. */
export type RuleControls = {
  /** For one player. */
  limits: CompiledLimits | undefined;
  /** Across all players. */
  globalLimits: readonly SharedLimit[];
  budgets: readonly CompiledBudget[];
  rollout: ((playerId: string) => Bucket) | undefined;
  /** The most that the rule gives a player. */
  caps: CapSet | undefined;
  /** The rule's step in chains of derived events. */
  step: RuleStep;
};

type Controlled = { id: string; key: string; isShadow: boolean; definition: RuleDocument };

/** Compiles a rule's limits, budgets and rollout. A rule in SHADOW has counters of its own. */
export const compileControls = ({ id, key, isShadow, definition }: Controlled): RuleControls => {
  const mark = isShadow ? "~" : "";
  const { limits, rollout } = definition;
  return {
    limits: compileLimits(`${mark}${id}`, limits),
    globalLimits: compileSharedLimits(`${mark}rule:${id}`, limits),
    budgets: compileBudgets(`${mark}rule:${id}`, limits),
    rollout: compileRollout(key, rollout),
    caps: limits?.caps && limits.caps.length > 0 ? { scope: `${mark}${id}`, caps: limits.caps } : undefined,
    step: { ruleId: id, ruleKey: key },
  };
};
