import { fnv1a } from "../../kernel/ids.ts";
import type { RuleDocument } from "../language/document.ts";

/** IN: the rule applies. OUT: not included. HELD: included, evaluated and recorded, without effect. */
export type Bucket = "IN" | "OUT" | "HELD";

const PARTS = 10_000;

/**
 * Compiles the selection of players for a rule: by a hash, so that it is stable while the salt is, and
 * players included at 10 % are included at 20 %. A second hash selects the holdout among those included.
 * @returns undefined for a rule that applies to everybody
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
