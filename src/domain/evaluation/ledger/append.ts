import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import type { LedgerRow } from "../effects.ts";
import { write } from "../event-steps.ts";
import type { Turn } from "../turn.ts";
import { chainHash } from "./chain.ts";

export type LedgerEntry = {
  asset: LedgerRow["asset"];
  currencyKey?: string;
  /** Signed, not 0. */
  amount: number;
  balanceAfter: number;
  reason: string;
  /** Deterministic: a key is recorded only once for a player, which the database enforces. */
  key: string;
  cause: Cause;
  txId?: string;
  /** The id of the entry that this one reverses. */
  reverses?: string;
  /** False for entries written along with an event that are not its effect: expiry, initial balances. */
  isOfEvent?: boolean;
};

/** Appends an entry to the ledger of the turn's player. */
export const appendLedger = (turn: Turn, entry: LedgerEntry): LedgerRow => {
  const { player, root } = turn;
  const { asset, amount, balanceAfter, reason, key, cause, txId, reverses, isOfEvent = true } = entry;
  const currencyKey = entry.currencyKey ?? null;
  const hash = chainHash(player.ledgerHash, { key, asset, currencyKey, amount, balanceAfter });
  const row: LedgerRow = {
    id: newId(),
    projectId: player.projectId,
    playerId: player.id,
    seq: ++player.ledgerSeq,
    asset,
    currencyKey,
    amount,
    balanceAfter,
    reason,
    key,
    txId: txId ?? null,
    reverses: reverses ?? null,
    cause,
    eventId: root.isTracked && isOfEvent ? root.id : null,
    hash,
  };
  player.ledgerHash = hash;
  write(turn, "ledger", row);
  return row;
};
