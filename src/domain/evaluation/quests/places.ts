import { limitedKey } from "../rewards/shared-keys.ts";
import type { SharedKey } from "../shared-counters.ts";
import type { Turn } from "../turn.ts";
import type { CompiledQuest } from "./compile.ts";

/** Returns the counter of the players who have started a quest, if there is a limit of them. */
export const placesKey = (projectId: string, { key, definition }: CompiledQuest): SharedKey | undefined =>
  definition.maxParticipants === undefined ? undefined : limitedKey(projectId, "quest", key);

/** Returns whether the turn's player has a place in a quest, or there is one left. */
export const hasPlace = ({ player, project, shared }: Turn, quest: CompiledQuest): boolean => {
  const key = placesKey(project.projectId, quest);
  if (!key || player.quests.has(quest.key)) return true;
  return shared.used(key) < quest.definition.maxParticipants!;
};

/**
 * Returns whether all places of a quest are known to be taken, and none is the turn's player's. They are
 * where something asks: conditions have their counters locked, and those who look at a player read them.
 */
export const isFull = (turn: Turn, quest: CompiledQuest): boolean => {
  const key = placesKey(turn.project.projectId, quest);
  return key !== undefined && turn.shared.has(key) && !hasPlace(turn, quest);
};

/** Returns whether a quest that is not begun is AVAILABLE to the turn's player; else it is LOCKED. */
export const isAvailable = (turn: Turn, quest: CompiledQuest): boolean =>
  quest.mayStart(turn) && !isFull(turn, quest);

/**
 * As `hasPlace`, for a start by itself: where the counter is not locked, since a player is only looked at,
 * the quest starts with the next event.
 */
export const hasPlaceNow = (turn: Turn, quest: CompiledQuest): boolean => {
  const key = placesKey(turn.project.projectId, quest);
  return key === undefined || (turn.shared.has(key) && hasPlace(turn, quest));
};

/** Takes a place for the turn's player, who keeps it in all cycles. */
export const takePlace = ({ player, project, shared }: Turn, quest: CompiledQuest): void => {
  const key = placesKey(project.projectId, quest);
  if (key && !player.quests.has(quest.key)) shared.add(key, 1);
};
