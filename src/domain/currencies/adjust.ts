import type { Cause } from "../events.ts";
import type { LedgerRow, Turn } from "../progression/turn.ts";

export type CurrencyChange = {
  currencyKey: string;
  /** Signed whole number. */
  amount: number;
  cause: Cause;
  /** Deterministic ledger key. */
  key: string;
  reason: string;
  /** Whether boosts on `currency:{key}` multiply a gain. */
  boostable?: boolean;
  /** CLAMP takes what there is; otherwise a loss beyond the balance changes nothing. */
  onInsufficient?: "REFUSE" | "CLAMP";
  expiresMs?: number;
  reference?: string;
};

/** `entry` is absent when nothing changed; `problem` says why, when it was for want of balance or of room. */
export type CurrencyChanged = {
  entry?: LedgerRow;
  problem?: "INSUFFICIENT_FUNDS" | "BALANCE_LIMIT" | "UNKNOWN_CURRENCY";
};

/** Changes a balance: ledger entry, lots, `player.currency_granted` or `player.currency_spent`. */
export const adjustCurrency = (_turn: Turn, _change: CurrencyChange): CurrencyChanged => {
  throw new Error("not built");
};
