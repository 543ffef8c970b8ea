import { hash } from "node:crypto";
import type { LedgerRow } from "../effects.ts";
import { type Turn, write } from "../turn.ts";
import type { Cause } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";

/** The fields of a ledger entry that are protected against changes. */
export type Chained = Pick<LedgerRow, "key" | "asset" | "currencyKey" | "amount" | "balanceAfter">;

/**
 * Returns the hash of a player's next ledger entry: SHA-256, hexadecimal, over the previous entry's hash
 * (empty for the first) and the entry, joined by line feeds. It includes no personal data, so that the chain
 * stays valid when a player is erased.
 */
export const chainHash = (
  previous: string | null,
  { key, asset, currencyKey, amount, balanceAfter }: Chained,
): string =>
  hash("sha256", [previous ?? "", key, asset, currencyKey ?? "", amount, balanceAfter].join("\n"), "hex");

type LedgerEntry = {
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
  const { currencyKey = null, txId = null, reverses = null, isOfEvent = true, ...rest } = entry;
  const hashed = chainHash(player.ledgerHash, { ...rest, currencyKey });
  const row: LedgerRow = {
    ...rest,
    currencyKey,
    txId,
    reverses,
    id: newId(),
    projectId: player.projectId,
    playerId: player.id,
    seq: ++player.ledgerSeq,
    eventId: root.isTracked && isOfEvent ? root.id : null,
    hash: hashed,
  };
  player.ledgerHash = hashed;
  write(turn, "ledger", row);
  return row;
};
