import { appendLedger } from "../ledger/append.ts";
import type { LotState } from "../player-state.ts";
import type { Turn } from "../turn.ts";
import { takeFromLots } from "./balance.ts";

/**
 * Expires the due lots of a currency: a ledger entry and `player.currency_expired` for each. Held amounts
 * stay until the hold is settled.
 */
export const expireLots = (turn: Turn, currencyKey: string): void => {
  const lots = turn.player.lots.get(currencyKey);
  if (!lots) return;
  let expired = 0;
  for (const lot of lots) {
    if (lot.expiresMs > turn.nowMs) break;
    expired += expireLot(turn, currencyKey, lot);
  }
  // Lots in front of a reduced one only have held amounts left, so everything is taken from the front.
  if (expired > 0) takeFromLots(turn.player, currencyKey, expired);
};

/** @returns the amounts to be taken from the lots */
const expireLot = (turn: Turn, currencyKey: string, { id, remaining }: LotState): number => {
  const { player } = turn;
  const state = player.balances.get(currencyKey);
  const amount = state ? Math.min(remaining, state.balance - state.held) : 0;
  if (!state || amount <= 0) return 0;
  const balance = state.balance - amount;
  player.balances.set(currencyKey, { ...state, balance });
  player.dirty.balances.add(currencyKey);
  const left = remaining - amount;
  const entry = appendLedger(turn, {
    asset: "CURRENCY",
    currencyKey,
    amount: -amount,
    balanceAfter: balance,
    reason: "expiry",
    // The held part of a lot expires later, with a key of its own.
    key: left === 0 ? `exp:${id}` : `exp:${id}:${player.ledgerSeq + 1}`,
    cause: { kind: "EXPIRY", refKey: currencyKey, refId: id },
    isOfEvent: false,
  });
  turn.emit("player.currency_expired", {
    playerId: player.id,
    externalUserId: player.externalUserId,
    currencyKey,
    amount,
    balance,
    ledgerEntryId: entry.id,
  });
  return amount;
};
