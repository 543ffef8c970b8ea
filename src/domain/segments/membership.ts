import type { Turn } from "../progression/turn.ts";

/**
 * Brings the dynamic segments that may have changed up to date: `player.segment_entered`,
 * `player.segment_left`.
 */
export const refreshSegments = (_turn: Turn): void => undefined;

/** Puts the player into a static segment, or takes it out. @returns a sentence when that cannot be done */
export const setMembership = (_turn: Turn, _segmentKey: string, _isMember: boolean): string | undefined => {
  throw new Error("not built");
};
