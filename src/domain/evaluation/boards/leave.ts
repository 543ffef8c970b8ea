import type { PlayerState } from "../player-state.ts";

/** Maximum number of lists for which a player's removal is remembered. */
const REMOVED_MAX = 100;

/**
 * Removes the player's entry from a list; saving deletes it, and the rank index follows. The next score
 * enters again.
 */
export const leaveList = (player: PlayerState, listId: string): void => {
  const entry = player.entries.get(listId);
  if (!entry) return;
  const kept = Object.entries(player.doc.z ?? {}).slice(1 - REMOVED_MAX);
  player.doc = { ...player.doc, z: { ...Object.fromEntries(kept), [listId]: entry.version + 1 } };
  player.dirty.doc = true;
  player.entries.delete(listId);
  player.dirty.entries.add(listId);
};
