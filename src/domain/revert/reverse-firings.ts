import type { SharedKey } from "../evaluation/shared-counters.ts";
import type { Turn } from "../evaluation/turn.ts";
import { isGrantOfAction } from "../evaluation/actions/action.ts";
import { assetOfLine } from "../evaluation/caps/cap.ts";
import { capsOf, takeBackChange } from "../evaluation/caps/caps.ts";
import { limitedKey } from "../evaluation/rewards/shared-keys.ts";
import { compileControls, type RuleControls } from "../evaluation/running/controls.ts";
import type { RuleDocument } from "../evaluation/language/document.ts";
import type { SharedScope } from "../evaluation/running/shared-limits.ts";
import type { Pieces } from "../kernel/pace.ts";
import type { CausedFiring, CausedGrant, CausedLine, Reversal } from "./record.ts";

/** The limits and budgets of rules as they were when they fired, by `firingKey`. */
export type FiredRules = ReadonlyMap<string, RuleControls>;

export const firingKey = ({ ruleId, ruleVersion }: Pick<CausedFiring, "ruleId" | "ruleVersion">): string =>
  `${ruleId}:${ruleVersion}`;

export const controlsOf = (ruleId: string, key: string, definition: RuleDocument): RuleControls =>
  compileControls({ id: ruleId, key, isShadow: false, definition });

/** Steps for a limit or a budget of a rule: for its window, and for writing the rest. */
const CONTROL_STEPS = 30;
/** Number of ledger entries examined per step. */
const LINES_PER_STEP = 8;

const stepsOf = (controls: RuleControls | undefined): number => {
  const { limits, globalLimits, budgets } = controls ?? { globalLimits: [], budgets: [] };
  return 5 + CONTROL_STEPS * ((limits ? 2 : 0) + globalLimits.length + budgets.length);
};

/** Yields the shared counters that firings at a time have counted in, in pieces. */
export function* sharedKeysOfFirings(
  rules: FiredRules,
  firings: readonly CausedFiring[],
  { project, atMs }: { project: SharedScope; atMs: number },
): Pieces<SharedKey[]> {
  const keys: SharedKey[] = [];
  for (const key of new Set(firings.map(firingKey))) {
    const controls = rules.get(key);
    yield stepsOf(controls);
    for (const counter of [...(controls?.globalLimits ?? []), ...(controls?.budgets ?? [])])
      keys.push(counter.keyOf(project, atMs));
  }
  return keys;
}

/** Refunds what firings have consumed of the limits and budgets of their rules, in pieces. */
export function* reverseFirings(
  turn: Turn,
  firings: readonly CausedFiring[],
  {
    rules,
    ledger,
    grants,
  }: { rules: FiredRules; ledger: readonly CausedLine[]; grants: readonly CausedGrant[] },
): Pieces<void> {
  const counted = new Set<string>();
  for (const firing of firings) {
    const controls = rules.get(firingKey(firing));
    yield stepsOf(controls);
    if (!controls) continue;
    controls.limits?.refund(turn);
    for (const limit of controls.globalLimits) limit.refund(turn);
    if (counted.has(firing.ruleId)) continue;
    counted.add(firing.ruleId);
    if (controls.budgets.length === 0) continue;
    yield ((1 + controls.budgets.length) * (ledger.length + grants.length)) / LINES_PER_STEP;
    const own = ledger.filter(({ cause }) => cause.ruleId === firing.ruleId);
    for (const budget of controls.budgets) budget.refund(turn, givenBy(budget.asset, own, grants));
  }
}

/**
 * Returns what a rule itself gave of an asset; the effects triggered by that are not refunded to its budget.
 */
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

const CAP_STEPS = 20;

/**
 * Gives room of caps back: of what actions of rules have given, or NET taken, at the time of the turn's
 * event. In pieces.
 */
export function* reverseCaps(turn: Turn, ledger: readonly CausedLine[], rules: FiredRules): Pieces<void> {
  for (const line of ledger) {
    const asset = assetOfLine(line);
    const { ruleId, ruleVersion } = line.cause;
    if (asset === undefined || ruleId === undefined || ruleVersion === undefined) continue;
    if (!isGrantOfAction(line.key)) continue;
    const sets = capsOf(turn, rules.get(firingKey({ ruleId, ruleVersion }))?.caps);
    if (sets.length === 0) continue;
    yield CAP_STEPS * sets.reduce((sum, { caps }) => sum + caps.length, 0);
    takeBackChange(turn, sets, { asset, change: line.amount });
  }
}

const GRANT_STEPS = 20;

/** Refunds the stock of rewards, and the player's limits for them; in pieces. */
export function* reverseGrants(turn: Turn, grants: readonly CausedGrant[], reversal: Reversal): Pieces<void> {
  const { player, shared, project } = turn;
  const sums: Record<string, number> = { ...player.doc.w };
  for (const { id, rewardKey, quantity, code, status } of grants) {
    yield GRANT_STEPS;
    if (code !== null || status === "FULFILLED") {
      reversal.left.add(`reward ${rewardKey}: what was handed over`);
      continue;
    }
    reversal.grants.push({ playerId: player.id, id });
    const counter = limitedKey(project.projectId, "reward", rewardKey);
    if (shared.has(counter)) shared.add(counter, -quantity);
    const given = player.doc.w?.[rewardKey];
    if (given === undefined) continue;
    sums[rewardKey] = Math.max(0, sums[rewardKey]! - quantity);
    player.dirty.doc = true;
  }
  if (player.doc.w) player.doc = { ...player.doc, w: sums };
}
