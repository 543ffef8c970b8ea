/**
 * Maximum bytes of a stored document, compressed or not, that is read for evaluation. Larger documents are
 * rejected when saved, but those from before there were limits may have any size.
 */
export const STORED_MAX_BYTES = 256 * 1024;

/** Maximum bytes as JSON of a document that is compiled: a stored one may be compressed. */
export const DOCUMENT_MAX_BYTES = 1024 * 1024;

/** A definition left out of evaluation because it is too large or does not compile. */
export type LeftOut = { kind: string; id: string; key: string; version: number; why: string };

export const TOO_LARGE_TO_RUN = "it is too large";

/** Returns why a definition that threw `error` is left out. */
export const whyNot = (error: unknown): string =>
  error instanceof RangeError ? "it is nested too deep" : `it cannot be compiled: ${String(error)}`;

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
export const RULE_REASONS = [
  "MATCHED",
  "CONDITIONS_NOT_MET",
  "NOT_ACTIVE_YET",
  "EXPIRED",
  "ROLLOUT_EXCLUDED",
  "HOLDOUT",
  "LIMIT_REACHED",
  "COOLDOWN",
  "BUDGET_EXHAUSTED",
  "STEPS_EXHAUSTED",
  "STOPPED",
  "ACTION_FAILED",
  "LOOP_GUARD",
  "PLAYER_INELIGIBLE",
] as const;

export type RuleReason = (typeof RULE_REASONS)[number];

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
export type RuleObserver = (rule: ObservedRule, outcome: Outcome) => void;
