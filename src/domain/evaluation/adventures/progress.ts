import { newId } from "../../kernel/ids.ts";
import { toSum } from "../metrics/aggregates.ts";
import type { PlanTurn } from "../project-plan.ts";
import { isEmptyBundle, type RewardBundle } from "../rewards/bundle.ts";
import { grantBundle } from "../rewards/grant-bundle.ts";
import type { CompiledAdventure } from "./compile.ts";
import { completionOf, doneItems, isRunning, isUnlocked, rowOf } from "./context.ts";
import {
  type AdventureRow,
  hasJoined,
  isReopened,
  type TierReached,
  type Track,
  wholePoints,
} from "./row.ts";
import { whyNotRunning } from "./closed.ts";
import { emitAdventure, storeAdventure, subjectOf, updateAdventure } from "./store.ts";

const isoOf = (ms: number): string => new Date(ms).toISOString();

/** A row of a player who has not joined. */
export const newRow = (adventure: CompiledAdventure): AdventureRow => ({
  id: newId(),
  version: adventure.version,
  state: "WAITING",
  points: 0,
  startedMs: null,
  completedMs: null,
  claimedMs: null,
  premiumMs: null,
  dueMs: null,
  items: {},
  unlocked: [],
  tiers: {},
});

/** Returns why the turn's player cannot join at its time; undefined if that is possible. */
export const joinProblem = (turn: PlanTurn, adventure: CompiledAdventure): string | undefined => {
  const row = rowOf(turn, adventure);
  if (hasJoined(row)) return "the player has joined it already";
  if (!isRunning(adventure, turn.event.at)) return `the adventure ${whyNotRunning(turn, adventure)}`;
  return adventure.isForPlayer(turn) ? undefined : "it is LOCKED for the player, who is not in its audience";
};

/** Makes the turn's player join, who must be able to. `isAuto`: by progress. */
export const joinAdventure = (
  turn: PlanTurn,
  adventure: CompiledAdventure,
  { isAuto = false }: { isAuto?: boolean } = {},
): void => {
  const { at } = turn.event;
  const row = rowOf(turn, adventure) ?? newRow(adventure);
  const by = isAuto ? { isAuto: true as const } : {};
  storeAdventure(turn, adventure, { ...row, ...by, state: "IN_PROGRESS", startedMs: at });
  emitAdventure(turn, "adventure.started", {
    ...subjectOf(turn, adventure),
    adventureId: adventure.id,
    season: adventure.definition.season ?? null,
    endsAt: isoOf(adventure.endMs),
    startedAt: isoOf(at),
  });
};

/**
 * Expires what is over at the turn's time: what was reached can be claimed until `claimUntil`. An event of
 * before the end still counts when it comes later.
 */
export const expireAdventure = (turn: PlanTurn, adventure: CompiledAdventure): void => {
  const row = rowOf(turn, adventure);
  const { at } = turn.event;
  if (!row) return;
  if (isReopened(row, adventure, turn.nowMs))
    updateAdventure(turn, adventure, { state: hasJoined(row) ? "IN_PROGRESS" : "WAITING" });
  if (at < adventure.endMs) return;
  const isUnfinished = row.state === "IN_PROGRESS" || row.state === "WAITING";
  const isUnclaimed = row.state === "COMPLETED" && at >= adventure.claimMs;
  if (isUnfinished || isUnclaimed) updateAdventure(turn, adventure, { state: "EXPIRED" });
};

/** Returns whether the player has joined and can get further at the turn's time. */
export const takesPart = (turn: PlanTurn, adventure: CompiledAdventure): boolean =>
  hasJoined(rowOf(turn, adventure)) && isRunning(adventure, turn.event.at);

/** Adds points to the row of a player who has joined. */
export const addPoints = (turn: PlanTurn, adventure: CompiledAdventure, points: number): void => {
  const row = rowOf(turn, adventure)!;
  updateAdventure(turn, adventure, { points: toSum(row.points + toSum(points)) });
};

/** Counts the completion of an item's quest, once for each cycle of it. */
export const countItem = (
  turn: PlanTurn,
  adventure: CompiledAdventure,
  { questKey, playerQuestId }: { questKey: string; playerQuestId: string },
): void => {
  const row = rowOf(turn, adventure)!;
  const before = row.items[questKey];
  if (before?.last === playerQuestId) return;
  const { doneMs = turn.event.at, times = 0 } = before ?? {};
  const items = { ...row.items, [questKey]: { doneMs, times: times + 1, last: playerQuestId } };
  updateAdventure(turn, adventure, { items });
  const { points } = adventure.items.get(questKey)!.definition;
  if (points > 0) addPoints(turn, adventure, points);
};

/** Unlocks the items of a player who takes part that may be unlocked at the turn's time. */
export const unlockItems = (turn: PlanTurn, adventure: CompiledAdventure): void => {
  if (!takesPart(turn, adventure)) return;
  const row = rowOf(turn, adventure)!;
  const fresh = [...adventure.items.values()]
    .filter((item) => !row.unlocked.includes(item.definition.questKey) && isUnlocked(turn, adventure, item))
    .map(({ definition }) => definition.questKey);
  if (fresh.length === 0) return;
  updateAdventure(turn, adventure, { unlocked: [...row.unlocked, ...fresh] });
  for (const questKey of fresh)
    emitAdventure(turn, "adventure.quest_unlocked", { ...subjectOf(turn, adventure), questKey });
};

/** Grants a bundle. Its key names the row, so that each is given once, and again after a revert. */
const giveRewards = (
  turn: PlanTurn,
  adventure: CompiledAdventure,
  { bundle, what }: { bundle: RewardBundle; what: string },
): void => {
  if (isEmptyBundle(bundle)) return;
  const { id, again } = rowOf(turn, adventure)!;
  const key = `adv:${id}:${what}${again === undefined ? "" : `~${again}`}`;
  const root = turn.root.isTracked ? { rootEventId: turn.root.id } : {};
  const cause = { kind: "ADVENTURE", refKey: adventure.key, ...root } as const;
  grantBundle(turn, { bundle, cause, key, reason: `adventure:${adventure.key}` });
};

type Tier = CompiledAdventure["definition"]["tiers"][number];

/** Returns what a tier gives on a track; undefined for nothing. */
export const bundleOf = ({ free, premium }: Tier, track: Track): RewardBundle | undefined =>
  track === "FREE" ? free : premium;

/** Returns whether the rewards of a tier were granted. */
export const isClaimed = (reached: TierReached | undefined, track: Track): boolean =>
  (track === "FREE" ? reached?.freeMs : reached?.premiumMs) !== undefined;

/** Grants the rewards of a tier that the player has reached. */
export const claimTier = (turn: PlanTurn, adventure: CompiledAdventure, tier: Tier, track: Track): void => {
  const row = rowOf(turn, adventure)!;
  const bundle = bundleOf(tier, track)!;
  const { at } = turn.event;
  const reached = { ...row.tiers[tier.tier]!, ...(track === "FREE" ? { freeMs: at } : { premiumMs: at }) };
  updateAdventure(turn, adventure, { tiers: { ...row.tiers, [tier.tier]: reached } });
  giveRewards(turn, adventure, { bundle, what: `t:${tier.tier}:${track}` });
  const subject = subjectOf(turn, adventure);
  emitAdventure(turn, "adventure.claimed", { ...subject, tier: tier.tier, track, rewards: bundle });
};

/** Grants the rewards of all tiers that are reached and not granted yet. */
export const claimTiers = (turn: PlanTurn, adventure: CompiledAdventure): void => {
  for (const tier of adventure.definition.tiers) {
    for (const track of ["FREE", "PREMIUM"] as const) {
      const { tiers, premiumMs } = rowOf(turn, adventure)!;
      const reached = tiers[tier.tier];
      const isOpen = reached !== undefined && (track === "FREE" || premiumMs !== null);
      if (isOpen && bundleOf(tier, track) && !isClaimed(reached, track))
        claimTier(turn, adventure, tier, track);
    }
  }
};

const reachTiers = (turn: PlanTurn, adventure: CompiledAdventure): void => {
  for (const { tier, points } of adventure.definition.tiers) {
    const row = rowOf(turn, adventure)!;
    const has = wholePoints(row);
    if (has < points) break;
    if (row.tiers[tier]) continue;
    updateAdventure(turn, adventure, { tiers: { ...row.tiers, [tier]: { reachedMs: turn.event.at } } });
    const subject = subjectOf(turn, adventure);
    const premium = row.premiumMs !== null;
    emitAdventure(turn, "adventure.tier_reached", { ...subject, tier, points: has, premium });
  }
  if (adventure.definition.claim === "AUTO") claimTiers(turn, adventure);
};

/** Grants the rewards of a completed adventure. */
export const claimAdventure = (turn: PlanTurn, adventure: CompiledAdventure): void => {
  const { rewards } = adventure.definition;
  updateAdventure(turn, adventure, { state: "CLAIMED", claimedMs: turn.event.at });
  giveRewards(turn, adventure, { bundle: rewards, what: "complete" });
  const subject = subjectOf(turn, adventure);
  emitAdventure(turn, "adventure.claimed", { ...subject, tier: null, track: null, rewards });
};

/** Completes the adventure of a player who has joined, whatever is left to do; once. */
export const completeAdventure = (turn: PlanTurn, adventure: CompiledAdventure): void => {
  const row = rowOf(turn, adventure)!;
  if (row.completedMs !== null) return;
  const { at } = turn.event;
  const { season, claim, rewards } = adventure.definition;
  updateAdventure(turn, adventure, { state: "COMPLETED", completedMs: at });
  emitAdventure(turn, "adventure.completed", {
    ...subjectOf(turn, adventure),
    adventureId: adventure.id,
    season: season ?? null,
    points: wholePoints(row),
    questsCompleted: doneItems(adventure, row).length,
    rewards,
    claimRequired: claim === "MANUAL",
    completedAt: isoOf(at),
  });
  if (claim === "AUTO") claimAdventure(turn, adventure);
};

const isDone = (turn: PlanTurn, adventure: CompiledAdventure): boolean => {
  const { has, needs } = completionOf(adventure, rowOf(turn, adventure));
  return has >= needs;
};

/**
 * Brings the row of a player who has joined to what its points, items and time say: unlocks items, reaches
 * tiers, completes. Doing so once more changes nothing.
 */
export const settleProgress = (turn: PlanTurn, adventure: CompiledAdventure): void => {
  if (!takesPart(turn, adventure)) return;
  unlockItems(turn, adventure);
  reachTiers(turn, adventure);
  if (isDone(turn, adventure)) completeAdventure(turn, adventure);
};
