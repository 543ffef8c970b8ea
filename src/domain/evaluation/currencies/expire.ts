import { appendLedger } from "../ledger/append.ts";
import type { LotState } from "../player-state.ts";
import type { Turn } from "../turn.ts";
import { takeFromLots } from "./balance.ts";

/**
 * Takes away what has expired of a currency: a ledger entry and `player.currency_expired` for each lot. What
 * is held stays until its hold is settled.
 */
export const expireLots = (turn: Turn, currencyKey: string): void => {
  const lots = turn.player.lots.get(currencyKey);
  if (!lots) return;
  let expired = 0;
  for (const lot of lots) {
    if (lot.expiresMs > turn.nowMs) break;
    expired += expireLot(turn, currencyKey, lot);
  }
  // Of lots in front of one that has given, nothing is left that is not held: all of it comes from the front.
  if (expired > 0) takeFromLots(turn.player, currencyKey, expired);
};

/** @returns what is to be taken from the lots */
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
    // What is held of a lot goes later, by a key of its own.
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
