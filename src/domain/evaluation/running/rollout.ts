import { fnv1a } from "../../kernel/ids.ts";
import type { RuleDocument } from "../language/document.ts";

/** IN: the rule applies. OUT: not included. HELD: included, evaluated and recorded, and nothing happens. */
export type Bucket = "IN" | "OUT" | "HELD";

const PARTS = 10_000;

/**
 * Prepares which players a rule is for: by a hash, so that a player's answer never changes while the salt
 * stands, and whoever is in at 10 % is in at 20 %. A second hash holds a part of those who are in back.
 * @returns undefined for a rule that is for everybody
 */
export const compileRollout = (
  ruleKey: string,
  rollout: RuleDocument["rollout"],
): ((playerId: string) => Bucket) | undefined => {
  if (!rollout) return undefined;
  const { percent, holdoutPercent, salt = "" } = rollout;
  if (percent === 100 && holdoutPercent === 0) return undefined;
  const isBelow = (text: string, share: number): boolean => fnv1a(text) % PARTS < share * 100;
  return (playerId) => {
    if (!isBelow(`${ruleKey}${salt}${playerId}`, percent)) return "OUT";
    return isBelow(`holdout\0${ruleKey}${salt}${playerId}`, holdoutPercent) ? "HELD" : "IN";
  };
};
