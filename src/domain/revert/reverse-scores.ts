import { isGrantOfAction } from "../evaluation/actions/action.ts";
import type { Board, List } from "../evaluation/boards/board.ts";
import {
  entryAt,
  findList,
  leaveList,
  openList,
  RANK_MAX,
  toRankScore,
  toUs,
} from "../evaluation/boards/lists.ts";
import { assetName } from "../evaluation/running/stats.ts";
import { capsOf, takeBackChange } from "../evaluation/caps/caps.ts";
import type { RuleDocument } from "../evaluation/language/document.ts";
import type { PastEvent } from "../evaluation/metrics/count.ts";
import type { EntryState } from "../evaluation/player-state.ts";
import type { PlanTurn } from "../evaluation/project-plan.ts";
import { limitedKey } from "../evaluation/rewards/shared-keys.ts";
import type { SharedScope } from "../evaluation/running/budgets.ts";
import { compileControls, type RuleControls } from "../evaluation/running/limits.ts";
import type { SharedKey } from "../evaluation/shared-counters.ts";
import type { Turn } from "../evaluation/turn.ts";
import type { Steps } from "../kernel/slices.ts";
import type { CausedFiring, CausedGrant, CausedLine, OtherScores, PlayerRecord, Reversal } from "./record.ts";

/** The limits and budgets of rules as they were when they fired, by `firingKey`. */
export type FiredRules = ReadonlyMap<string, RuleControls>;

export const firingKey = ({ ruleId, ruleVersion }: Pick<CausedFiring, "ruleId" | "ruleVersion">): string =>
  `${ruleId}:${ruleVersion}`;

export const controlsOf = (ruleId: string, key: string, definition: RuleDocument): RuleControls =>
  compileControls({ id: ruleId, key, isShadow: false, definition });

/** Yields the shared counters that firings at a time have counted in, in pieces. */
export function* sharedKeysOfFirings(
  rules: FiredRules,
  firings: readonly CausedFiring[],
  { project, atMs }: { project: SharedScope; atMs: number },
): Steps<SharedKey[]> {
  const keys: SharedKey[] = [];
  for (const key of new Set(firings.map(firingKey))) {
    const controls = rules.get(key);
    yield;
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
): Steps<void> {
  const counted = new Set<string>();
  for (const firing of firings) {
    const controls = rules.get(firingKey(firing));
    yield;
    if (!controls) continue;
    controls.limits?.refund(turn);
    for (const limit of controls.globalLimits) limit.count(turn, -1);
    if (counted.has(firing.ruleId)) continue;
    counted.add(firing.ruleId);
    if (controls.budgets.length === 0) continue;
    yield;
    const own = ledger.filter(({ cause }) => cause.ruleId === firing.ruleId);
    for (const budget of controls.budgets) budget.add(turn, -givenBy(budget.asset, own, grants));
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

/**
 * Gives room of caps back: of what actions of rules have given, or NET taken, at the time of the turn's
 * event. In pieces.
 */
export function* reverseCaps(turn: Turn, ledger: readonly CausedLine[], rules: FiredRules): Steps<void> {
  for (const line of ledger) {
    const asset = assetName(line.asset, line.currencyKey);
    const { ruleId, ruleVersion } = line.cause;
    if (ruleId === undefined || ruleVersion === undefined) continue;
    if (!isGrantOfAction(line.key)) continue;
    const sets = capsOf(turn, rules.get(firingKey({ ruleId, ruleVersion }))?.caps);
    if (sets.length === 0) continue;
    yield;
    takeBackChange(turn, sets, { asset, change: line.amount });
  }
}

/** Refunds the stock of rewards, and the player's limits for them; in pieces. */
export function* reverseGrants(turn: Turn, grants: readonly CausedGrant[], reversal: Reversal): Steps<void> {
  const { player, shared, project } = turn;
  const sums: Record<string, number> = { ...player.doc.w };
  for (const { id, rewardKey, quantity, code, status } of grants) {
    yield;
    if (code !== null || status === "FULFILLED") {
      reversal.left.add(`reward ${rewardKey}: what was handed over`);
      continue;
    }
    reversal.grants.push({ playerId: player.id, id });
    const counter = limitedKey(project.projectId, "reward", rewardKey);
    const isLimited = project.rewards.get(rewardKey)?.definition.stock !== undefined;
    if (isLimited && shared.has(counter)) shared.add(counter, -quantity);
    const given = player.doc.w?.[rewardKey];
    if (given === undefined) continue;
    sums[rewardKey] = Math.max(0, sums[rewardKey]! - quantity);
    player.dirty.doc = true;
  }
  if (player.doc.w) player.doc = { ...player.doc, w: sums };
}

/** When boards began, in ms, by id: earlier events are not counted in them. */
export type BoardStarts = ReadonlyMap<string, number>;

type ScoreContext = {
  starts: BoardStarts;
  receivedMs: number;
  /** By list; for boards whose entry comes from a single event. */
  others: ReadonlyMap<string, OtherScores>;
  reversal: Reversal;
};

/** Limits a score to what boards keep. */
export const clamp = (value: number): number => Math.max(-RANK_MAX, Math.min(RANK_MAX, value));

/** Whether a board counts events, so that nobody on it has 0. */
export const countsEvents = ({ metric }: Board): boolean =>
  metric.source === "EVENT" && metric.aggregate === "count";

/** Whether the entry may come from this very event alone. */
export const isFrom = (
  board: Board,
  entry: EntryState,
  { rankScore, at }: { rankScore: number; at: number },
): boolean => (board.operator === "LATEST" ? entry.latestUs === toUs(at) : entry.rankScore === rankScore);

/** Removes events from the boards that count them, in pieces. */
export function* reverseScores(
  turn: PlanTurn,
  events: readonly PastEvent[],
  context: ScoreContext,
): Steps<void> {
  const { starts, receivedMs, reversal } = context;
  for (const { type, at, properties } of events) {
    const event = { id: turn.event.id, type, at, properties, depth: 0 };
    for (const { board, scoreOf } of turn.project.boardIndex.forEvent(type)) {
      yield;
      const score = scoreOf({ event });
      const list = openList(board, turn.player, event);
      const entry = entryAt(board, turn.player, event);
      if (score === undefined || !entry) continue;
      if (typeof list === "string") reversal.left.add(`leaderboard ${board.key}: its period is closed`);
      // It is not stored whether a board was filled with earlier events.
      else if (receivedMs < (starts.get(board.id) ?? -Infinity))
        reversal.left.add(`leaderboard ${board.key}`);
      else reverseScore(turn, list, { entry, rankScore: toRankScore(board, score), at, context });
    }
  }
}

type Scored = { entry: EntryState; rankScore: number; at: number; context: ScoreContext };

const reverseScore = (turn: Turn, list: List, { entry, rankScore, at, context }: Scored): void => {
  const { board, id } = list;
  const { others, reversal } = context;
  const isSum = board.operator === "SUM";
  const rest = clamp(entry.rankScore - rankScore);
  const other = others.get(id);
  if (isSum && rest !== 0) setEntry(turn, id, { ...entry, rankScore: rest });
  else if (isSum && countsEvents(board)) leaveList(turn.player, id);
  else if (!isFrom(board, entry, { rankScore, at })) return;
  else if (other === null) leaveList(turn.player, id);
  else if (isSum) {
    setEntry(turn, id, { ...entry, rankScore: 0 });
    if (!other) reversal.left.add(`leaderboard ${board.key}: a place with 0`);
  } else if (other) setEntry(turn, id, { ...entry, ...other });
  else {
    reversal.left.add(`leaderboard ${board.key}`);
    return;
  }
  reversal.scores.add(board.key);
};

const setEntry = ({ player }: Turn, listId: string, entry: EntryState): void => {
  player.entries.set(listId, { ...entry, version: entry.version + 1 });
  player.dirty.entries.add(listId);
};

/**
 * Removes the player from boards of XP and of gains on which the reversal has left nothing, since nothing
 * else has scored there.
 * @param before the player's entries before the reversal
 */
export const leaveEmptied = (
  turn: PlanTurn,
  before: ReadonlyMap<string, EntryState>,
  { hasOtherXp, lost }: Pick<PlayerRecord, "hasOtherXp" | "lost">,
): void => {
  const { player, project, event, nowMs } = turn;
  const { xp, gains } = project.boardIndex;
  const emptied = [
    ...[event.at, ...lost.map(({ atMs }) => atMs)].flatMap((at) =>
      gains.map(({ board }) => findList(board, player, { at })),
    ),
    ...(hasOtherXp ? [] : xp.map((board) => findList(board, player, { at: nowMs }))),
  ];
  for (const list of emptied) {
    if (typeof list === "string") continue;
    const entry = player.entries.get(list.id);
    if (entry?.rankScore === 0 && entry !== before.get(list.id)) leaveList(player, list.id);
  }
};
