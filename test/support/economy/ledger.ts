import assert from "node:assert/strict";
import { chainHash } from "../../../src/domain/evaluation/ledger/append.ts";
import type { LedgerRow } from "../../../src/domain/evaluation/effects.ts";
import type { PlayerState } from "../../../src/domain/evaluation/player-state.ts";

/** A ledger that starts from nothing: numbered without a gap, chained, no key twice, balances the sums. */
export const assertLedger = (ledger: readonly LedgerRow[], player: PlayerState): void => {
  let tip: string | null = null;
  const sums = new Map<string, number>();
  ledger.forEach((row, i) => {
    assert.equal(row.seq, i + 1);
    tip = chainHash(tip, row);
    assert.equal(row.hash, tip);
    assert.notEqual(row.amount, 0);
    const asset = row.currencyKey ?? row.asset;
    const sum = (sums.get(asset) ?? 0) + row.amount;
    sums.set(asset, sum);
    if (row.asset !== "LIVES") assert.equal(row.balanceAfter, sum, `${asset} after entry ${row.seq}`);
  });
  assert.deepEqual([player.ledgerSeq, player.ledgerHash], [ledger.length, tip]);
  assert.equal(new Set(ledger.map(({ key }) => key)).size, ledger.length, "keys");
  assert.equal(player.xp, sums.get("XP") ?? 0);
  for (const [key, { balance, held }] of player.balances) {
    assert.equal(balance, sums.get(key) ?? 0, `balance of ${key}`);
    assert.ok(held >= 0 && held <= balance, `${held} held of ${balance} ${key}`);
  }
};

/** What is in the lots of a currency. */
export const lotsOf = ({ lots }: PlayerState, key: string): number =>
  (lots.get(key) ?? []).reduce((sum, { remaining }) => sum + remaining, 0);
