import { sql } from "kysely";
import { notFound } from "../../kernel/errors.ts";
import type { LedgerRow } from "../../evaluation/effects.ts";
import type { Transact, Work } from "../../kernel/work.ts";
import { chainHash } from "../../evaluation/ledger/chain.ts";
import type { PlayerKey } from "../../progression/reference.ts";

/** Number of entries per read. */
const PAGE = 1_000;

/**
 * `firstInvalidSeq`: the first entry that is missing, was changed, or does not follow from those before it.
 */
export type Verdict = {
  valid: boolean;
  entries: number;
  headHash: string | null;
  firstInvalidSeq?: number;
};

type Head = { seq: number; hash: string | null };
type Row = {
  seq: string | number;
  key: string;
  asset: LedgerRow["asset"];
  currency_key: string | null;
  amount: string | number;
  balance_after: string | number;
  hash: string;
};

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
  const follows = ({ asset, currency_key: currencyKey, ...row }: Row): boolean => {
    const name = `${asset}:${currencyKey ?? ""}`;
    const balance = (balances.get(name) ?? 0) + Number(row.amount);
    balances.set(name, balance);
    // Lives refill between entries.
    return asset === "LIVES" || balance === Number(row.balance_after);
  };
  const check = (row: Row, seq: number): boolean => {
    const { key, asset, currency_key: currencyKey } = row;
    const [amount, balanceAfter] = [Number(row.amount), Number(row.balance_after)];
    tip = chainHash(tip, { key, asset, currencyKey, amount, balanceAfter });
    return Number(row.seq) === seq && row.hash === tip && follows(row);
  };
  return Object.assign(check, { tip: () => tip });
};

const readHead = async ({ db }: Work, { projectId, id }: PlayerKey): Promise<Head> => {
  const { rows } = await sql<{ ledger_seq: string | number; ledger_hash: string | null }>`
    select ledger_seq, ledger_hash from players
    where project_id = ${projectId} and id = ${id}`.execute(db);
  if (!rows[0]) throw notFound("player");
  return { seq: Number(rows[0].ledger_seq), hash: rows[0].ledger_hash };
};

const readPage = async ({ db }: Work, { projectId, id }: PlayerKey, after: number): Promise<Row[]> => {
  const { rows } = await sql<Row>`
    select seq, idempotency_key as key, asset, currency_key, amount, balance_after, hash from ledger_entries
    where project_id = ${projectId} and player_id = ${id} and seq > ${after}
    order by seq limit ${PAGE}`.execute(db);
  return rows;
};
