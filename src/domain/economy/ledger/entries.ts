import { type RawBuilder, sql } from "kysely";
import type { Cause } from "../../kernel/events/events.ts";
import type { LedgerRow } from "../../evaluation/effects.ts";
import type { Work } from "../../kernel/work.ts";
import { lineCause, lineReason } from "../../progression/ledger-line.ts";
import type { PlayerKey } from "../../progression/reference.ts";

/** A line of a player's ledger as the API shows it. */
export type LedgerEntryView = Pick<
  LedgerRow,
  "id" | "seq" | "asset" | "currencyKey" | "amount" | "balanceAfter" | "reason" | "txId" | "reverses" | "hash"
> & { cause: Cause; createdAt: string };

/** Converts an entry that has just been written. */
export const showEntry = (row: LedgerRow, createdAt: Date): LedgerEntryView => {
  const { id, seq, asset, currencyKey, amount, balanceAfter, reason, txId, reverses, cause, hash } = row;
  const what = { id, seq, asset, currencyKey, amount, balanceAfter, reason };
  return { ...what, txId, cause, reverses, hash, createdAt: createdAt.toISOString() };
};

export type ListEntries = {
  limit: number;
  /** Returns entries older than the one with this `seq`. */
  cursor?: number | undefined;
  asset?: LedgerRow["asset"] | undefined;
  currencyKey?: string | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
};

type Row = {
  id: string;
  seq: string | number;
  asset: LedgerRow["asset"];
  currency_key: string | null;
  amount: string | number;
  balance_after: string | number;
  reason: string;
  tx_id: string | null;
  reverses: string | null;
  cause: Cause;
  hash: string;
  created_at: Date | string;
};

const show = (row: Row): LedgerEntryView => ({
  id: row.id,
  seq: Number(row.seq),
  asset: row.asset,
  currencyKey: row.currency_key,
  amount: Number(row.amount),
  balanceAfter: Number(row.balance_after),
  reason: row.reason,
  txId: row.tx_id,
  cause: row.cause,
  reverses: row.reverses,
  hash: row.hash,
  createdAt: new Date(row.created_at).toISOString(),
});

/** Lists a player's ledger, newest first, and returns the cursor of the next page. */
export const listEntries = async (
  { db }: Work,
  { projectId, id }: PlayerKey,
  { limit, cursor, asset, currencyKey, from, to }: ListEntries,
): Promise<{ entries: LedgerEntryView[]; nextCursor: string | null }> => {
  const conditions: RawBuilder<unknown>[] = [sql`project_id = ${projectId}`, sql`player_id = ${id}`];
  if (cursor !== undefined) conditions.push(sql`seq < ${cursor}`);
  if (asset !== undefined) conditions.push(sql`asset = ${asset}`);
  if (currencyKey !== undefined) conditions.push(sql`currency_key = ${currencyKey}`);
  if (from) conditions.push(sql`created_at >= ${from.toISOString()}::timestamptz`);
  if (to) conditions.push(sql`created_at < ${to.toISOString()}::timestamptz`);
  const result = await sql<Row>`
    select id, seq, asset, currency_key, amount, balance_after, ${lineReason("l")} as reason, tx_id, reverses,
      ${lineCause("l")} as cause, hash, created_at
    from ledger_entries l where ${sql.join(conditions, sql` and `)}
    order by seq desc limit ${limit + 1}`.execute(db);
  const entries = result.rows.slice(0, limit).map(show);
  return { entries, nextCursor: result.rows.length > limit ? String(entries.at(-1)!.seq) : null };
};
