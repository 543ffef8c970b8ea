import type { PlayerDoc, PlayerState } from "../player-state.ts";

/** Maximum number of lists for which a player's removal is remembered by itself. */
const REMOVED_MAX = 100;
/** In place of a list: the highest version of all removals that are not. */
const OLDER = "*";

/** Returns the version with which the player's entry was removed from a list, or a higher one. */
export const removedVersion = ({ z }: PlayerDoc, listId: string): number | undefined =>
  z?.[listId] ?? z?.[OLDER];

/**
 * Removes the player's entry from a list; saving deletes it, and the rank index follows. The next score
 * enters again.
 */
export const leaveList = (player: PlayerState, listId: string): void => {
  const entry = player.entries.get(listId);
  if (!entry) return;
  const { [OLDER]: older = 0, [listId]: _again, ...known } = player.doc.z ?? {};
  const versions = Object.entries(known);
  const dropped = versions.slice(0, -(REMOVED_MAX - 1)).map(([, version]) => version);
  const highest = Math.max(older, ...dropped);
  const z = { ...Object.fromEntries(versions.slice(dropped.length)), [listId]: entry.version + 1 };
  player.doc = { ...player.doc, z: highest === 0 ? z : { [OLDER]: highest, ...z } };
  player.dirty.doc = true;
  player.entries.delete(listId);
  player.dirty.entries.add(listId);
};
