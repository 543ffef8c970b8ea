import type { SharedKey } from "../../progression/shared-counters.ts";
import type { Turn } from "../../progression/turn.ts";
import { limitedKey } from "../../rewards/shared-keys.ts";
import { compileControls, type RuleControls } from "../../rules/running/controls.ts";
import type { RuleDocument } from "../../rules/language/document.ts";
import type { SharedScope } from "../../rules/running/shared-limits.ts";
import type { CausedFiring, CausedGrant, CausedLine, Reversal } from "./record.ts";

/** The limits and budgets of rules as they were when they fired, by `firingKey`. */
export type FiredRules = ReadonlyMap<string, RuleControls>;

export const firingKey = ({ ruleId, ruleVersion }: CausedFiring): string => `${ruleId}:${ruleVersion}`;

export const controlsOf = (ruleId: string, key: string, definition: RuleDocument): RuleControls =>
  compileControls({ id: ruleId, key, isShadow: false, definition });

/** The shared counters that firings at a time have counted in. */
export const sharedKeysOfFirings = (
  rules: FiredRules,
  firings: readonly CausedFiring[],
  { project, atMs }: { project: SharedScope; atMs: number },
): SharedKey[] =>
  firings.flatMap((firing) => {
    const controls = rules.get(firingKey(firing));
    return controls
      ? [...controls.globalLimits, ...controls.budgets].map((counter) => counter.keyOf(project, atMs))
      : [];
  });

/** Gives back what firings have counted against the limits and budgets of their rules. */
export const reverseFirings = (
  turn: Turn,
  firings: readonly CausedFiring[],
  {
    rules,
    ledger,
    grants,
  }: { rules: FiredRules; ledger: readonly CausedLine[]; grants: readonly CausedGrant[] },
): void => {
  const counted = new Set<string>();
  for (const firing of firings) {
    const controls = rules.get(firingKey(firing));
    if (!controls) continue;
    controls.limits?.giveBack(turn);
    for (const limit of controls.globalLimits) limit.giveBack(turn);
    if (counted.has(firing.ruleId)) continue;
    counted.add(firing.ruleId);
    const own = ledger.filter(({ cause }) => cause.ruleId === firing.ruleId);
    for (const budget of controls.budgets) budget.giveBack(turn, givenBy(budget.asset, own, grants));
  }
};

/** What a rule itself gave of an asset; what that set off is not given back to its budget. */
const givenBy = (asset: string, ledger: readonly CausedLine[], grants: readonly CausedGrant[]): number => {
  const [kind, key] = asset.split(":") as [string, string?];
  if (kind === "reward")
    return grants
      .filter(({ rewardKey }) => rewardKey === key)
      .reduce((sum, { quantity }) => sum + quantity, 0);
  return ledger
    .filter(({ asset: of, amount }) => of === (kind === "xp" ? "XP" : "CURRENCY") && amount > 0)
    .filter(({ currencyKey }) => currencyKey === (key ?? null))
    .reduce((sum, { amount }) => sum + amount, 0);
};

/** Gives back the stock of rewards, and what the player may have of them. */
export const reverseGrants = (turn: Turn, grants: readonly CausedGrant[], reversal: Reversal): void => {
  const { player, shared, project } = turn;
  for (const { id, rewardKey, quantity, code, status } of grants) {
    if (code !== null || status === "FULFILLED") {
      reversal.left.add(`reward ${rewardKey}: what was handed over`);
      continue;
    }
    reversal.grants.push(id);
    const counter = limitedKey(project.projectId, "reward", rewardKey);
    if (shared.has(counter)) shared.add(counter, -quantity);
    const given = player.doc.w?.[rewardKey];
    if (given === undefined) continue;
    player.doc = { ...player.doc, w: { ...player.doc.w, [rewardKey]: Math.max(0, given - quantity) } };
    player.dirty.doc = true;
  }
};
