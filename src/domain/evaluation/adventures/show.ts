import type { CompiledAdventure } from "./compile.ts";
import { completionOf, doneItems, endOf, isUnlocked, rowOf, runsFor, unlocksMs } from "./progress.ts";
import {
  type AdventureRow,
  hasJoined,
  isReopened,
  NOT_JOINED,
  type PlayerAdventureState,
  wholePoints,
} from "./row.ts";
import { publish } from "../emit.ts";
import type { PlanTurn } from "../project-plan.ts";
import { questName } from "../quests/quest.ts";
import { type AdventureStanding, playerOf } from "../turn.ts";
import { endIsoOf, isoOf } from "../../kernel/iso-time.ts";

/** Returns the state of a row at a moment: what is over by then is EXPIRED, settled or not. */
const stateOf = (turn: PlanTurn, adventure: CompiledAdventure): PlayerAdventureState => {
  const row = rowOf(turn, adventure);
  if (!hasJoined(row)) return runsFor(turn, adventure) ? "AVAILABLE" : "LOCKED";
  if (isReopened(row, adventure, turn.nowMs)) return "IN_PROGRESS";
  return turn.event.at >= endOf(adventure, row) ? "EXPIRED" : (row.state as PlayerAdventureState);
};

const percentOf = (adventure: CompiledAdventure, row: AdventureRow | undefined): number => {
  if (row?.completedMs !== undefined && row.completedMs !== null) return 100;
  const { has, needs } = completionOf(adventure, row);
  return Math.min(99, Math.floor((100 * has) / needs));
};

/** Returns where the turn's player stands in an adventure; undefined for an unknown one. */
export const adventureStanding = (turn: PlanTurn, key: string): AdventureStanding | undefined => {
  const adventure = turn.project.adventures.byKey.get(key);
  if (!adventure) return undefined;
  return { state: stateOf(turn, adventure), percent: percentOf(adventure, rowOf(turn, adventure)) };
};

const showItems = (turn: PlanTurn, adventure: CompiledAdventure) => {
  const row = rowOf(turn, adventure);
  const { unlocked: known = [], items: done = {} }: Partial<AdventureRow> = row ?? {};
  const runs = runsFor(turn, adventure);
  const items = [...adventure.items.values()].toSorted((a, b) => a.definition.order - b.definition.order);
  return items.map((item) => {
    const { questKey, chapter = null, optional, points } = item.definition;
    const quest = turn.project.quests.byKey.get(questKey);
    const unlocked = known.includes(questKey) || (runs && isUnlocked(turn, adventure, item));
    return {
      questKey,
      name: quest ? questName(quest.definition, turn.player.locale) : questKey,
      chapter,
      optional,
      points,
      unlocked,
      unlocksAt: unlocked ? null : endIsoOf(unlocksMs(turn, adventure, { row, item })),
      state: turn.questStanding(questKey)?.state ?? "LOCKED",
      completions: done[questKey]?.times ?? 0,
    };
  });
};

const showTiers = (adventure: CompiledAdventure, row: AdventureRow | undefined) =>
  adventure.definition.tiers.map(({ tier, points, free, premium }) => {
    const reached = row?.tiers[tier];
    return {
      tier,
      points,
      free: free ?? null,
      premium: premium ?? null,
      reached: reached !== undefined,
      claimed: reached?.freeMs !== undefined,
      premiumClaimed: reached?.premiumMs !== undefined,
    };
  });

const questsRequired = ({ definition: { completion, items } }: CompiledAdventure): number =>
  completion.mode === "COUNT" ? completion.value! : items.filter(({ optional }) => !optional).length;

/**
 * Returns how far the turn's player is with an adventure, without its texts, items and tiers; `id` is null
 * without a row.
 */
const showOutline = (turn: PlanTurn, adventure: CompiledAdventure) => {
  const row = rowOf(turn, adventure);
  const isThere = row !== undefined && (row.startedMs !== null || row.premiumMs !== null);
  const { id, points, premiumMs, startedMs, completedMs, claimedMs } = isThere
    ? row
    : { ...NOT_JOINED, id: null, premiumMs: null };
  return {
    id,
    adventureKey: adventure.key,
    adventureId: adventure.id,
    name: adventure.definition.name,
    season: adventure.definition.season ?? null,
    state: stateOf(turn, adventure),
    points: wholePoints({ points }),
    questsCompleted: doneItems(adventure, row).length,
    questsRequired: questsRequired(adventure),
    percent: percentOf(adventure, row),
    premium: premiumMs !== null,
    startsAt: isoOf(adventure.fromMs),
    endsAt: isoOf(adventure.endMs),
    claimUntil: isoOf(adventure.claimMs),
    startedAt: isoOf(startedMs),
    completedAt: isoOf(completedMs),
    claimedAt: isoOf(claimedMs),
  };
};

/** Returns a player's adventure at the turn's time, as the API shows it. */
export const showAdventure = (turn: PlanTurn, adventure: CompiledAdventure) => {
  const { description, imageUrl, join, claim, rewards, premiumPrice } = adventure.definition;
  return {
    ...showOutline(turn, adventure),
    description: description ?? null,
    imageUrl: imageUrl ?? null,
    join,
    claim,
    rewards,
    premiumPrice: premiumPrice ?? null,
    tiers: showTiers(adventure, rowOf(turn, adventure)),
    items: showItems(turn, adventure),
  };
};

export type PlayerAdventure = ReturnType<typeof showAdventure>;

type Change = "STARTED" | "PROGRESS" | "TIER" | "COMPLETED" | "CLAIMED" | "EXPIRED";

const claimsOf = ({ tiers }: AdventureRow): number =>
  Object.values(tiers).reduce(
    (sum, { freeMs, premiumMs }) => sum + (freeMs === undefined ? 0 : 1) + (premiumMs === undefined ? 0 : 1),
    0,
  );

const reachedOf = ({ tiers }: AdventureRow): number => Object.keys(tiers).length;

const STATES: Partial<Record<AdventureRow["state"], Change>> = {
  IN_PROGRESS: "STARTED",
  COMPLETED: "COMPLETED",
  CLAIMED: "CLAIMED",
  EXPIRED: "EXPIRED",
};

const isFurther = (before: AdventureRow, now: AdventureRow): boolean =>
  wholePoints(before) !== wholePoints(now) ||
  before.items !== now.items ||
  before.unlocked !== now.unlocked ||
  before.premiumMs !== now.premiumMs;

/** Returns the greatest of the changes of a row; undefined when players see none. */
const changeOf = (before: AdventureRow | undefined, now: AdventureRow): Change | undefined => {
  if (before?.state !== now.state) return STATES[now.state] ?? "PROGRESS";
  if (reachedOf(now) > reachedOf(before)) return "TIER";
  if (claimsOf(now) > claimsOf(before)) return "CLAIMED";
  return isFurther(before, now) ? "PROGRESS" : undefined;
};

/** Whether nothing but points has changed, which happens often: items and tiers are left out then. */
const isOfPoints = (before: AdventureRow | undefined, now: AdventureRow): boolean =>
  before?.state === now.state &&
  before.items === now.items &&
  before.unlocked === now.unlocked &&
  before.tiers === now.tiers;

const announce = (
  turn: PlanTurn,
  adventure: CompiledAdventure,
  { before, now }: { before: AdventureRow | undefined; now: AdventureRow },
): void => {
  const change = changeOf(before, now);
  if (change === undefined) return;
  const isBrief = isOfPoints(before, now);
  const shown = isBrief ? showOutline(turn, adventure) : showAdventure(turn, adventure);
  publish(turn, "adventure.updated", { ...playerOf(turn), adventure: shown, change });
};

/** Publishes what a pass has changed in the player's adventures: one line of the player's stream for each. */
export const announceAdventures = (turn: PlanTurn): void => {
  const { root, project } = turn;
  for (const [key, before] of root.adventures ?? []) {
    const adventure = project.adventures.byKey.get(key);
    const now = adventure && rowOf(turn, adventure);
    if (now) announce(turn, adventure, { before, now });
  }
  delete root.adventures;
};
