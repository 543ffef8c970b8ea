import { sql } from "kysely";
import { NIL_ID } from "../../kernel/ids.ts";
import { chainHash, type Chained } from "../../evaluation/ledger/chain.ts";
import type { Work } from "../../kernel/work.ts";
import { idsOf, type Page } from "./finding.ts";

type LedgerRow = {
  player_id: string;
  seq: string | number;
  idempotency_key: string;
  asset: Chained["asset"];
  currency_key: string | null;
  amount: string | number;
  balance_after: string | number;
  hash: string;
};

/** Number of entries per statement. */
const LINES_PAGE = 5_000;

type Problem = { invariant: string; message: string };

/** Sums over one player's ledger, entry by entry. */
export type Sum = {
  seq: number;
  hash: string | null;
  totals: Map<string, number>;
  problem: Problem | undefined;
};

const assetOf = ({ asset, currency_key }: LedgerRow): string => currency_key ?? asset;

const addLine = (sum: Sum, row: LedgerRow): void => {
  const [seq, amount, balanceAfter] = [Number(row.seq), Number(row.amount), Number(row.balance_after)];
  const chained = { key: row.idempotency_key, asset: row.asset, currencyKey: row.currency_key };
  const asset = assetOf(row);
  const total = (sum.totals.get(asset) ?? 0) + amount;
  sum.totals.set(asset, total);
  sum.problem ??= problemOf(sum, row, { total, expected: { ...chained, amount, balanceAfter } });
  sum.seq = seq;
  sum.hash = row.hash;
};

const problemOf = (
  sum: Sum,
  row: LedgerRow,
  { total, expected }: { total: number; expected: Chained },
): Problem | undefined => {
  const seq = Number(row.seq);
  if (seq !== sum.seq + 1) return { invariant: "I3", message: `ledger line ${sum.seq + 1} is missing` };
  if (row.hash !== chainHash(sum.hash, expected))
    return { invariant: "I4", message: `ledger line ${seq} is not what was chained` };
  // Lives regenerate without an entry, so sums are only checked for the other assets.
  if (row.asset !== "LIVES" && total !== expected.balanceAfter)
    return {
      invariant: "I2",
      message: `ledger line ${seq} says ${expected.balanceAfter} ${assetOf(row)}, its sum is ${total}`,
    };
  return undefined;
};

/** Sums the ledgers of a page's players, by player; one without entries is absent. */
export const sumLedgers = async ({ db }: Work, page: Page): Promise<Map<string, Sum>> => {
  const sums = new Map<string, Sum>();
  let [afterPlayer, afterSeq] = [NIL_ID, 0];
  for (;;) {
    const { rows } = await sql<LedgerRow>`
      select player_id, seq, idempotency_key, asset, currency_key, amount, balance_after, hash
      from ledger_entries
      where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[])
        and (player_id, seq) > (${afterPlayer}::uuid, ${afterSeq}::bigint)
      order by player_id, seq limit ${LINES_PAGE}`.execute(db);
    for (const row of rows) {
      const sum = sums.get(row.player_id) ?? { seq: 0, hash: null, totals: new Map(), problem: undefined };
      sums.set(row.player_id, sum);
      addLine(sum, row);
    }
    const last = rows.at(-1);
    if (!last || rows.length < LINES_PAGE) return sums;
    [afterPlayer, afterSeq] = [last.player_id, Number(last.seq)];
  }
};
