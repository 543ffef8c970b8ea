/**
 * DRAFT until first published; ACTIVE rules run; SHADOW rules are evaluated without effect; ARCHIVED is
 * final.
 */
export const RULE_STATUSES = ["DRAFT", "ACTIVE", "SHADOW", "PAUSED", "ARCHIVED"] as const;

export type RuleStatus = (typeof RULE_STATUSES)[number];
