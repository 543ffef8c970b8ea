import type { Turn } from "../progression/turn.ts";

/** Event types that the service sends to itself: another player's turn, and a later one. */
export const SPAWNED_TYPES = ["system.grant", "system.delayed_action"] as const;

/** Does what a `system.grant` or `system.delayed_action` event was sent for. */
export const runSpawned = (_turn: Turn): void => {
  throw new Error("not built");
};
