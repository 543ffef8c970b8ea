import type { Cause } from "../events.ts";
import type { Stacking, Turn } from "../progression/turn.ts";

/** What multiplies a gain now, capped by the project; a use of each boost with uses is counted. */
export const useBoosts = (_turn: Turn, _applies: string): number => 1;

export type NewBoost = {
  boostKey: string;
  applies: string;
  factor: number;
  durationSeconds: number;
  uses?: number;
  stacking: Stacking;
  cause: Cause;
};

/** Starts a boost by its stacking: `player.boost_started`, and `player.boost_ended` for what it replaces. */
export const startBoost = (_turn: Turn, _boost: NewBoost): void => {
  throw new Error("not built");
};
