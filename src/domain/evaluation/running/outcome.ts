/** Thrown by an action that cannot be performed. Its rule then has no effect at all: ACTION_FAILED. */
export class RuleFailure extends Error {
  readonly actionId: string;

  constructor(actionId: string, message: string) {
    super(message);
    this.name = "RuleFailure";
    this.actionId = actionId;
  }
}

/**
 * DRAFT until first published; ACTIVE rules run; SHADOW rules are evaluated without effect; ARCHIVED is
 * final.
 */
export const RULE_STATUSES = ["DRAFT", "ACTIVE", "SHADOW", "PAUSED", "ARCHIVED"] as const;

export type RuleStatus = (typeof RULE_STATUSES)[number];

/** Why a rule fired or did not. */
export type RuleReason =
  | "MATCHED"
  | "CONDITIONS_NOT_MET"
  | "NOT_ACTIVE_YET"
  | "EXPIRED"
  | "ROLLOUT_EXCLUDED"
  | "HOLDOUT"
  | "LIMIT_REACHED"
  | "COOLDOWN"
  | "BUDGET_EXHAUSTED"
  | "STEPS_EXHAUSTED"
  | "STOPPED"
  | "ACTION_FAILED"
  | "LOOP_GUARD"
  | "PLAYER_INELIGIBLE";

export type Outcome = {
  /** For a rule in SHADOW: it would have fired. */
  fired: boolean;
  reason: RuleReason;
  detail?: string;
  /** When the limit that refused lets the rule fire again, in ms. */
  nextEligibleMs?: number;
  stoppedBy?: string;
};

/** A rule as passed to observers of evaluation. */
export type ObservedRule = { id: string; key: string };

/**
 * Called for every rule that was considered, fired or not, for statistics. Called while a batch is evaluated,
 * which may still be rolled back, so results must be buffered until the commit.
 */
export type RuleObserver = {
  considered: (rule: ObservedRule, outcome: Outcome) => void;
};
