import type { Turn } from "../progression/turn.ts";

/** Step 2 of evaluation: settles and extends the streaks that the event's type counts for. */
export const advanceStreaks = (_turn: Turn): void => undefined;

/** Gives freezes of a streak, up to its maximum. @returns how many were given; undefined for an unknown one */
export const grantFreezes = (_turn: Turn, _streakKey: string, _amount: number): number | undefined => {
  throw new Error("not built");
};

/** A streak's measure at the event's time, settled; undefined for an unknown streak. */
export const streakMeasure = (
  _turn: Turn,
  _streakKey: string,
  _measure: "current" | "longest" | "freezes",
): number | undefined => undefined;
