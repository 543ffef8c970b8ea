import { z } from "zod";
import { type RawBuilder, sql } from "kysely";
import type { LedgerRow } from "../../evaluation/effects.ts";
import { type Chained, chainHash } from "../../evaluation/ledger/append.ts";
import { notFound } from "../../kernel/errors.ts";
import { type Cause, type CauseAsked, causePart } from "../../kernel/events/events.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import type { PlayerKey } from "../../progression/change.ts";
import { lineCause, lineReason } from "../../progression/save.ts";

/** Number of entries per read. */
const PAGE = 1_000;

/**
 * `firstInvalidSeq`: the first entry that is missing, was changed, or does not follow from those before it.
 */
export const Verdict = z.object({
  valid: z.boolean(),
  entries: z.int(),
  headHash: z.string().nullable().meta({ description: "Hash of the newest entry; null without entries" }),
  firstInvalidSeq: z.int().optional(),
});
export type Verdict = z.output<typeof Verdict>;

type Head = { seq: number; hash: string | null };
type VerifiedRow = Chained & Pick<LedgerRow, "seq" | "hash">;

/**
 * Verifies a player's ledger, a page per transaction, up to the entry that was the newest at the start: seqs
 * without a gap, each hash derived from the one before, each balance of XP and currencies the sum of its
 * amounts, and the tip equal to that of the player's row. @throws DomainError NOT_FOUND
 */
export const verifyLedger = async (
  transact: Transact,
  player: PlayerKey,
  pause?: () => Promise<void>,
): Promise<Verdict> => {
  const head = await transact((work) => readHead(work, player));
  const result = { entries: head.seq, headHash: head.hash };
  const check = checker();
  for (let seq = 0; seq < head.seq;) {
    const rows = await transact((work) => readPage(work, player, seq));
    for (const row of rows) {
      if (seq === head.seq) break;
      if (!check(row, ++seq)) return { valid: false, ...result, firstInvalidSeq: seq };
    }
    if (rows.length < PAGE && seq < head.seq) return { valid: false, ...result, firstInvalidSeq: seq + 1 };
    await pause?.();
  }
  return check.tip() === head.hash
    ? { valid: true, ...result }
    : { valid: false, ...result, firstInvalidSeq: Math.max(1, head.seq) };
};

/** Checks entries one after another. */
const checker = () => {
  let tip: string | null = null;
  const balances = new Map<string, number>();
  const follows = ({ asset, currencyKey, ...row }: VerifiedRow): boolean => {
    const name = `${asset}:${currencyKey ?? ""}`;
    const balance = (balances.get(name) ?? 0) + row.amount;
    balances.set(name, balance);
    // Lives refill between entries.
    return asset === "LIVES" || balance === row.balanceAfter;
  };
  const check = (row: VerifiedRow, seq: number): boolean => {
    tip = chainHash(tip, row);
    return row.seq === seq && row.hash === tip && follows(row);
  };
  return Object.assign(check, { tip: () => tip });
};

const readHead = async ({ db }: Work, { projectId, id }: PlayerKey): Promise<Head> => {
  const { rows } = await sql<Head>`
    select ledger_seq as seq, ledger_hash as hash from players
    where project_id = ${projectId} and id = ${id}`.execute(db);
  if (!rows[0]) throw notFound("player");
  return rows[0];
};

const readPage = async (
  { db }: Work,
  { projectId, id }: PlayerKey,
  after: number,
): Promise<VerifiedRow[]> => {
  const { rows } = await sql<VerifiedRow>`
    select seq, idempotency_key as key, asset, currency_key as "currencyKey", amount,
      balance_after as "balanceAfter", hash
    from ledger_entries
    where project_id = ${projectId} and player_id = ${id} and seq > ${after}
    order by seq limit ${PAGE}`.execute(db);
  return rows;
};

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

type ListEntries = CauseAsked & {
  limit: number;
  /** Returns entries older than the one with this `seq`. */
  cursor?: number | undefined;
  asset?: LedgerRow["asset"] | undefined;
  currencyKey?: string | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
};

/** Lists a player's ledger, newest first, and returns the cursor of the next page. */
export const listEntries = async (
  { db }: Work,
  { projectId, id }: PlayerKey,
  { limit, cursor, asset, currencyKey, from, to, ...asked }: ListEntries,
): Promise<{ entries: LedgerEntryView[]; nextCursor: string | null }> => {
  const cause = causePart(asked);
  const conditions: RawBuilder<unknown>[] = [sql`project_id = ${projectId}`, sql`player_id = ${id}`];
  if (cursor !== undefined) conditions.push(sql`seq < ${cursor}`);
  if (asset !== undefined) conditions.push(sql`asset = ${asset}`);
  if (currencyKey !== undefined) conditions.push(sql`currency_key = ${currencyKey}`);
  if (cause !== null) conditions.push(sql`cause @> ${cause}::jsonb`);
  if (from) conditions.push(sql`created_at >= ${from.toISOString()}::timestamptz`);
  if (to) conditions.push(sql`created_at < ${to.toISOString()}::timestamptz`);
  const result = await sql<RowOf<LedgerEntryView>>`
    select id, seq, asset, currency_key as "currencyKey", amount, balance_after as "balanceAfter",
      ${lineReason("l")} as reason, tx_id as "txId", ${lineCause("l")} as cause, reverses, hash,
      created_at as "createdAt"
    from ledger_entries l where ${sql.join(conditions, sql` and `)}
    order by seq desc limit ${limit + 1}`.execute(db);
  const entries = result.rows.slice(0, limit).map((row) => shownRow(row));
  return { entries, nextCursor: result.rows.length > limit ? String(entries.at(-1)!.seq) : null };
};
