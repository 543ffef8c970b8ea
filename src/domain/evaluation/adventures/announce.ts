import { publish } from "../emit.ts";
import type { PlanTurn } from "../project-plan.ts";
import type { CompiledAdventure } from "./compile.ts";
import { rowOf } from "./context.ts";
import { type AdventureRow, wholePoints } from "./row.ts";
import { showAdventure, showOutline } from "./show.ts";

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

/** Steps of showing where the player stands in the quest of an item. */
const ITEM_STEPS = 10;

const announce = (
  turn: PlanTurn,
  adventure: CompiledAdventure,
  { before, now }: { before: AdventureRow | undefined; now: AdventureRow },
): void => {
  const change = changeOf(before, now);
  if (change === undefined) return;
  const { id: playerId, externalUserId } = turn.player;
  const isBrief = isOfPoints(before, now);
  if (!isBrief) turn.root.steps.spend(ITEM_STEPS * adventure.items.size);
  const shown = isBrief ? showOutline(turn, adventure) : showAdventure(turn, adventure);
  publish(turn, "adventure.updated", { playerId, externalUserId, adventure: shown, change });
};

/** Publishes what a pass has changed in the player's adventures: one line of the player's stream for each. */
export const announceAdventures = (turn: PlanTurn): void => {
  const { root, project } = turn;
  if (!root.adventures) return;
  for (const [key, before] of root.adventures) {
    const adventure = project.adventures.byKey.get(key);
    const now = adventure && rowOf(turn, adventure);
    if (now) announce(turn, adventure, { before, now });
  }
  delete root.adventures;
};
