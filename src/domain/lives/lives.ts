import type { Cause } from "../events.ts";
import type { LedgerRow, Turn } from "../progression/turn.ts";

/** Exactly one of `amount` (signed), `refill` and `unlimitedSeconds`. */
export type LivesChange = {
  amount?: number;
  refill?: "FULL";
  unlimitedSeconds?: number;
  onInsufficient?: "REFUSE" | "CLAMP";
  cause: Cause;
  key: string;
  reason: string;
};

export type LivesChanged = { entry?: LedgerRow; problem?: "INSUFFICIENT_LIVES" | "LIVES_DISABLED" };

/** Changes lives: ledger entry, `player.lives_changed`. */
export const adjustLives = (_turn: Turn, _change: LivesChange): LivesChanged => {
  throw new Error("not built");
};

/** The regenerated number of lives at the turn's now; undefined where the project has no lives. */
export const currentLives = (_turn: Pick<Turn, "player" | "project" | "nowMs">): number | undefined =>
  undefined;
