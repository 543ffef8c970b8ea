import type { CompiledAdventure, CompiledItem } from "./compile.ts";
import {
  type AdventureRow,
  hasJoined,
  isReopened,
  NOT_JOINED,
  type TierReached,
  type Track,
  wholePoints,
} from "./row.ts";
import { numbered } from "../../kernel/errors.ts";
import { emitGoal, giveRewards, storeGoal } from "../goals.ts";
import { asReceived } from "../live.ts";
import { toSum } from "../metrics/aggregates.ts";
import type { PlanTurn } from "../project-plan.ts";
import type { RewardBundle } from "../rewards/bundle.ts";
import type { EventContext } from "../rule-event.ts";
import { newId } from "../../kernel/ids.ts";
import { playerOf } from "../turn.ts";
import { isoOf } from "../../kernel/iso-time.ts";
import { calendarOf, windowNumber, windowStart } from "../../kernel/zones.ts";

/** Returns whether an adventure runs at a moment: players can join and get further. */
export const isRunning = ({ phase, fromMs, endMs }: CompiledAdventure, atMs: number): boolean =>
  phase === "RUNNING" && atMs >= fromMs && atMs < endMs;

/** Returns the points that an event gives to players who take part; never less than none. */
export const pointsOfEvent = (adventure: CompiledAdventure, context: EventContext): number => {
  let points = 0;
  for (const { sampleOf, pointsPerUnit } of adventure.sourcesFor(context.event.type)) {
    const sample = sampleOf(context);
    if (typeof sample === "number" && sample > 0) points += sample * pointsPerUnit;
  }
  return points;
};

/** Returns the player's row as it is now. */
export const rowOf = ({ player }: Pick<PlanTurn, "player">, { key }: CompiledAdventure) =>
  player.adventures.get(key);

/** Returns when an item is unlocked by time alone; Infinity for one that waits for something else. */
export const unlocksMs = (
  { player, project }: Pick<PlanTurn, "player" | "project">,
  { definition: { timezone } }: CompiledAdventure,
  { row, item }: { row: AdventureRow | undefined; item: CompiledItem },
): number => {
  const { unlock } = item.definition;
  if (unlock.mode === "AT_DATE") return item.atMs;
  if (unlock.mode !== "DAY_OFFSET") return Infinity;
  if (unlock.days === 0) return -Infinity;
  if (row?.startedMs === undefined || row.startedMs === null) return Infinity;
  const calendar = calendarOf(project, timezone, player.timezone);
  return windowStart("DAY", calendar, windowNumber("DAY", calendar, row.startedMs) + unlock.days);
};

/** Whether time alone unlocks an item. */
const isTimed = ({ definition: { unlock } }: CompiledItem): boolean =>
  unlock.mode === "AT_DATE" || unlock.mode === "DAY_OFFSET";

const meets = (turn: PlanTurn, adventure: CompiledAdventure, item: CompiledItem): boolean => {
  const row = rowOf(turn, adventure);
  const { unlock } = item.definition;
  if (unlock.mode === "POINTS") return wholePoints(row) >= unlock.points;
  if (isTimed(item)) return turn.event.at >= unlocksMs(turn, adventure, { row, item });
  return item.after.every((key) => row?.items[key] !== undefined);
};

/**
 * Returns whether an item is unlocked for the turn's player at its time. Once unlocked, it stays so; what
 * time unlocks follows the event's time, also where a later one was seen already.
 */
export const isUnlocked = (turn: PlanTurn, adventure: CompiledAdventure, item: CompiledItem): boolean => {
  const row = rowOf(turn, adventure);
  if (!isTimed(item) && row?.unlocked.includes(item.definition.questKey) === true) return true;
  const isClosed = !hasJoined(row) && adventure.definition.join === "MANUAL";
  return !isClosed && meets(turn, adventure, item);
};

/** Returns whether an adventure runs for the turn's player: it is offered, or the player has joined it. */
export const runsFor = (turn: PlanTurn, adventure: CompiledAdventure): boolean =>
  isRunning(adventure, turn.event.at) && (hasJoined(rowOf(turn, adventure)) || adventure.isForPlayer(turn));

/** Returns the adventures that keep a quest closed: those that run and have not unlocked it, or all if none runs. */
const closing = (turn: PlanTurn, questKey: string): CompiledAdventure[] => {
  const adventures = turn.project.adventures.ofQuest(questKey).map((one) => asReceived(one, turn));
  const running = adventures.filter((adventure) => runsFor(turn, adventure));
  if (running.length === 0) return adventures;
  return running.filter((adventure) => !isUnlocked(turn, adventure, adventure.items.get(questKey)!));
};

/** Returns whether adventures let a quest be started. One of no adventure is always open. */
export const isQuestOpen = (turn: PlanTurn, questKey: string): boolean =>
  closing(turn, questKey).length === 0;

/** Returns the keys of the items that a player has done. */
export const doneItems = ({ items }: CompiledAdventure, row: AdventureRow | undefined): string[] =>
  [...items.keys()].filter((key) => row?.items[key] !== undefined);

/** Returns how many of what completes an adventure a player has, and needs. */
export const completionOf = (
  adventure: CompiledAdventure,
  row: AdventureRow | undefined,
): { has: number; needs: number } => {
  const { completion, items } = adventure.definition;
  if (completion.mode === "POINTS") return { has: wholePoints(row), needs: completion.value! };
  const done = doneItems(adventure, row);
  if (completion.mode === "COUNT") return { has: done.length, needs: completion.value! };
  const required = items.filter(({ optional }) => !optional).map(({ questKey }) => questKey);
  return { has: required.filter((key) => done.includes(key)).length, needs: required.length };
};

/** Returns in words why an adventure does not run for the turn's player. */
export const whyNotRunning = (turn: PlanTurn, adventure: CompiledAdventure): string => {
  const { phase, fromMs } = adventure;
  if (phase === "PAUSED") return "is paused";
  if (turn.event.at < fromMs) return `begins at ${isoOf(fromMs)}`;
  return isRunning(adventure, turn.event.at) ? "is not offered to the player" : "is over";
};

type Waiting = { reason: string; questKeys: readonly string[] };

/** Says what an item waits for that is not unlocked. */
const waitsFor = (turn: PlanTurn, adventure: CompiledAdventure, item: CompiledItem): Waiting => {
  if (!runsFor(turn, adventure)) return { reason: whyNotRunning(turn, adventure), questKeys: [] };
  const row = rowOf(turn, adventure);
  const { unlock } = item.definition;
  if (!hasJoined(row) && adventure.definition.join === "MANUAL")
    return { reason: "has not been joined", questKeys: [] };
  if (unlock.mode === "POINTS") {
    const has = `and the player has ${wholePoints(row)}`;
    return { reason: `unlocks it with ${numbered(unlock.points, "point")}, ${has}`, questKeys: [] };
  }
  if (isTimed(item)) {
    const ms = unlocksMs(turn, adventure, { row, item });
    const when = Number.isFinite(ms)
      ? `at ${isoOf(ms)}`
      : `${numbered(unlock.mode === "DAY_OFFSET" ? unlock.days : 0, "day")} after the player has joined`;
    return { reason: `unlocks it ${when}`, questKeys: [] };
  }
  const questKeys = item.after.filter((key) => row?.items[key] === undefined);
  return { reason: `unlocks it after ${questKeys.join(", ")}`, questKeys };
};

/** Returns which adventures keep a quest closed, why, and the quests that must be done first. */
export const closedBy = (turn: PlanTurn, questKey: string): (Waiting & { adventureKey: string })[] =>
  closing(turn, questKey).map((adventure) => ({
    adventureKey: adventure.key,
    ...waitsFor(turn, adventure, adventure.items.get(questKey)!),
  }));

/** Fields by which events of adventures name their subject. */
const subjectOf = (turn: PlanTurn, { key }: CompiledAdventure) => ({ ...playerOf(turn), adventureKey: key });

/** Returns when the next item is unlocked by time alone, after the turn's time; Infinity for never. */
const nextUnlockMs = (turn: PlanTurn, adventure: CompiledAdventure, row: AdventureRow): number => {
  if (!hasJoined(row) || !isRunning(adventure, turn.event.at)) return Infinity;
  const times = [...adventure.items.values()]
    .filter(({ definition }) => !row.unlocked.includes(definition.questKey))
    .map((item) => unlocksMs(turn, adventure, { row, item }))
    .filter((ms) => ms > turn.event.at && ms < adventure.endMs);
  return Math.min(Infinity, ...times);
};

/** Returns when a row is over, with what may be claimed of it; Infinity for never. */
export const endOf = ({ endMs, claimMs }: CompiledAdventure, { state }: AdventureRow): number => {
  if (state === "IN_PROGRESS" || state === "WAITING") return endMs;
  return state === "COMPLETED" ? claimMs : Infinity;
};

const dueOf = (turn: PlanTurn, adventure: CompiledAdventure, row: AdventureRow): number | null => {
  if (row.state === "EXPIRED") return null;
  const dueMs = Math.min(endOf(adventure, row), nextUnlockMs(turn, adventure, row));
  return Number.isFinite(dueMs) ? dueMs : null;
};

/** Stores the player's row. */
export const storeAdventure = (turn: PlanTurn, adventure: CompiledAdventure, row: AdventureRow): void => {
  const { key, version } = adventure;
  const dueMs = dueOf(turn, adventure, row);
  storeGoal(turn, "adventures", key, { ...row, version, dueMs, isChanged: true });
};

/** Changes fields of the player's row, which must be there. */
export const updateAdventure = (
  turn: PlanTurn,
  adventure: CompiledAdventure,
  fields: Partial<AdventureRow>,
): void => storeAdventure(turn, adventure, { ...rowOf(turn, adventure)!, ...fields });

/** A row of a player who has not joined. */
export const newRow = (adventure: CompiledAdventure): AdventureRow => ({
  id: newId(),
  version: adventure.version,
  premiumMs: null,
  dueMs: null,
  tiers: {},
  ...NOT_JOINED,
});

export const NOT_IN_AUDIENCE = "it is LOCKED for the player, who is not in its audience";

/** Returns why the turn's player cannot join at its time; undefined if that is possible. */
export const joinProblem = (turn: PlanTurn, adventure: CompiledAdventure): string | undefined => {
  const row = rowOf(turn, adventure);
  if (hasJoined(row)) return "the player has joined it already";
  if (!isRunning(adventure, turn.event.at)) return `the adventure ${whyNotRunning(turn, adventure)}`;
  return adventure.isForPlayer(turn) ? undefined : NOT_IN_AUDIENCE;
};

/** Makes the turn's player join, who must be able to. */
export const joinAdventure = (
  turn: PlanTurn,
  adventure: CompiledAdventure,
  by: Pick<AdventureRow, "isAuto"> = {},
): void => {
  const { at } = turn.event;
  const row = rowOf(turn, adventure) ?? newRow(adventure);
  storeAdventure(turn, adventure, { ...row, ...by, state: "IN_PROGRESS", startedMs: at });
  emitGoal(turn, "adventure.started", {
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
  if (!row) return;
  if (isReopened(row, adventure, turn.nowMs))
    updateAdventure(turn, adventure, { state: hasJoined(row) ? "IN_PROGRESS" : "WAITING" });
  if (turn.event.at >= endOf(adventure, row)) updateAdventure(turn, adventure, { state: "EXPIRED" });
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
    emitGoal(turn, "adventure.quest_unlocked", { ...subjectOf(turn, adventure), questKey });
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
  giveRewards(turn, "ADVENTURE", { key: adventure.key, row, what: `t:${tier.tier}:${track}`, bundle });
  const subject = subjectOf(turn, adventure);
  emitGoal(turn, "adventure.claimed", { ...subject, tier: tier.tier, track, rewards: bundle });
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
    emitGoal(turn, "adventure.tier_reached", { ...subject, tier, points: has, premium });
  }
  if (adventure.definition.claim === "AUTO") claimTiers(turn, adventure);
};

/** Grants the rewards of a completed adventure. */
export const claimAdventure = (turn: PlanTurn, adventure: CompiledAdventure): void => {
  const { key, definition } = adventure;
  const { rewards } = definition;
  updateAdventure(turn, adventure, { state: "CLAIMED", claimedMs: turn.event.at });
  giveRewards(turn, "ADVENTURE", { key, row: rowOf(turn, adventure)!, what: "complete", bundle: rewards });
  const subject = subjectOf(turn, adventure);
  emitGoal(turn, "adventure.claimed", { ...subject, tier: null, track: null, rewards });
};

/** Completes the adventure of a player who has joined, whatever is left to do; once. */
export const completeAdventure = (turn: PlanTurn, adventure: CompiledAdventure): void => {
  const row = rowOf(turn, adventure)!;
  if (row.completedMs !== null) return;
  const { at } = turn.event;
  const { season, claim, rewards } = adventure.definition;
  updateAdventure(turn, adventure, { state: "COMPLETED", completedMs: at });
  emitGoal(turn, "adventure.completed", {
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

export const isDone = (adventure: CompiledAdventure, row: AdventureRow | undefined): boolean => {
  const { has, needs } = completionOf(adventure, row);
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
  if (isDone(adventure, rowOf(turn, adventure))) completeAdventure(turn, adventure);
};
