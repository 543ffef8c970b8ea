import { sql } from "kysely";
import { type Chained, chainHash } from "../../evaluation/ledger/append.ts";
import { NIL_ID } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";

/** A violated invariant. `invariant` names the rule; see docs/guides/operate.md#reconciling. */
export type Finding = {
  invariant: string;
  projectId: string;
  playerId: string | null;
  message: string;
  /** Whether it is derived data that `--repair` restores from its source. */
  isRepairable: boolean;
};

/** Players of one project, locked for the transaction, so that nothing changes during the checks. */
export type Page = { projectId: string; playerIds: readonly string[] };

/** Checks one page. `repair` restores derived data; findings are reported either way. */
export type Check = (work: Work, page: Page, repair: boolean) => Promise<Finding[]>;

/** Says the same invariant of several players of a page. */
export const findingsOf = (
  invariant: string,
  { projectId }: Page,
  found: readonly { playerId: string; message: string }[],
  isRepairable = false,
): Finding[] =>
  found.map(({ playerId, message }) => ({ invariant, projectId, playerId, message, isRepairable }));

/** The page's ids as a parameter of `any(…::uuid[])`. */
export const idsOf = ({ playerIds }: Page): string => `{${playerIds.join(",")}}`;

type LedgerRow = Chained & { playerId: string; seq: number; hash: string };

/** Number of entries per statement. */
const LINES_PAGE = 5_000;

type Problem = { invariant: string; message: string };

/** Sums over one player's ledger, entry by entry. */
type Sum = {
  seq: number;
  hash: string | null;
  totals: Map<string, number>;
  problem: Problem | undefined;
};

const assetOf = ({ asset, currencyKey }: LedgerRow): string => currencyKey ?? asset;

const addLine = (sum: Sum, row: LedgerRow): void => {
  const asset = assetOf(row);
  const total = (sum.totals.get(asset) ?? 0) + row.amount;
  sum.totals.set(asset, total);
  sum.problem ??= problemOf(sum, row, total);
  sum.seq = row.seq;
  sum.hash = row.hash;
};

const problemOf = (sum: Sum, row: LedgerRow, total: number): Problem | undefined => {
  const { seq, balanceAfter } = row;
  if (seq !== sum.seq + 1) return { invariant: "I3", message: `ledger line ${sum.seq + 1} is missing` };
  if (row.hash !== chainHash(sum.hash, row))
    return { invariant: "I4", message: `ledger line ${seq} is not what was chained` };
  // Lives regenerate without an entry, so sums are only checked for the other assets.
  if (row.asset !== "LIVES" && total !== balanceAfter)
    return {
      invariant: "I2",
      message: `ledger line ${seq} says ${balanceAfter} ${assetOf(row)}, its sum is ${total}`,
    };
  return undefined;
};

/** Sums the ledgers of a page's players, by player; one without entries is absent. */
const sumLedgers = async ({ db }: Work, page: Page): Promise<Map<string, Sum>> => {
  const sums = new Map<string, Sum>();
  let [afterPlayer, afterSeq] = [NIL_ID, 0];
  for (;;) {
    const { rows } = await sql<LedgerRow>`
      select player_id as "playerId", seq, idempotency_key as key, asset, currency_key as "currencyKey",
        amount, balance_after as "balanceAfter", hash
      from ledger_entries
      where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[])
        and (player_id, seq) > (${afterPlayer}::uuid, ${afterSeq}::bigint)
      order by player_id, seq limit ${LINES_PAGE}`.execute(db);
    for (const row of rows) {
      const sum = sums.get(row.playerId) ?? { seq: 0, hash: null, totals: new Map(), problem: undefined };
      sums.set(row.playerId, sum);
      addLine(sum, row);
    }
    const last = rows.at(-1);
    if (!last || rows.length < LINES_PAGE) return sums;
    [afterPlayer, afterSeq] = [last.playerId, last.seq];
  }
};

/** One player's balance of one currency: as stored, and as derived from the ledger and the open holds. */
type Compared = {
  playerId: string;
  currencyKey: string;
  balance: number;
  held: number;
  total: number;
  holds: number;
};

type Stored = Omit<Compared, "total">;

type CheckInput = { sums: ReadonlyMap<string, Sum>; repair: boolean };

/** I2 and I5: balances are the sums of their ledger entries, and held amounts those of open holds. */
const checkBalances = async (work: Work, page: Page, { sums, repair }: CheckInput): Promise<Finding[]> => {
  const compared = compare(await readBalances(work, page), sums);
  const wrong = compared.filter(({ balance, held, total, holds }) => balance !== total || held !== holds);
  if (repair && wrong.length > 0) await repairBalances(work, page, wrong);
  return wrong.flatMap((one) => balanceFindings(page, one));
};

const readBalances = async ({ db }: Work, page: Page): Promise<readonly Stored[]> => {
  const { rows } = await sql<Stored>`
    select coalesce(b.player_id, h.player_id) as "playerId",
      coalesce(b.currency_key, h.currency_key) as "currencyKey",
      coalesce(b.balance, 0) as balance, coalesce(b.held, 0) as held, coalesce(h.amount, 0) as holds
    from (select * from player_balances
      where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[])) b
    full join (
      select player_id, currency_key, sum(amount) as amount from currency_holds
      where project_id = ${page.projectId} and player_id = any(${idsOf(page)}::uuid[]) and status = 'HELD'
      group by player_id, currency_key) h
      on h.player_id = b.player_id and h.currency_key = b.currency_key`.execute(db);
  return rows;
};

/** Returns every balance that is stored or has ledger entries. */
const compare = (rows: readonly Stored[], sums: ReadonlyMap<string, Sum>): Compared[] => {
  const compared = new Map<string, Compared>();
  for (const row of rows) compared.set(`${row.playerId} ${row.currencyKey}`, { ...row, total: 0 });
  for (const [playerId, { totals }] of sums) {
    for (const [currencyKey, total] of totals) {
      if (currencyKey === "XP" || currencyKey === "LIVES") continue;
      const id = `${playerId} ${currencyKey}`;
      const kept = compared.get(id) ?? { playerId, currencyKey, balance: 0, held: 0, holds: 0 };
      compared.set(id, { ...kept, total });
    }
  }
  return [...compared.values()];
};

const balanceFindings = (
  page: Page,
  { playerId, currencyKey, balance, held, total, holds }: Compared,
): Finding[] => {
  const say = (invariant: string, message: string): Finding[] =>
    findingsOf(invariant, page, [{ playerId, message: `${currencyKey}: ${message}` }], true);
  return [
    ...(balance === total ? [] : say("I2", `the balance is ${balance}, the ledger says ${total}`)),
    ...(held === holds ? [] : say("I5", `${held} are held, open holds hold ${holds}`)),
  ];
};

const repairBalances = async (
  { db, now }: Work,
  { projectId }: Page,
  wrong: readonly Compared[],
): Promise<void> => {
  const rows = wrong.map(({ playerId, currencyKey, total, holds }) => ({
    i: playerId,
    k: currencyKey,
    b: total,
    h: Math.min(holds, total),
  }));
  await sql`
    insert into player_balances (project_id, player_id, currency_key, balance, held, updated_at)
    select ${projectId}::uuid, i, k, b, h, ${now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(i uuid, k text, b bigint, h bigint)
    on conflict (project_id, player_id, currency_key) do update set balance = excluded.balance,
      held = excluded.held, updated_at = excluded.updated_at`.execute(db);
};

type Tip = { id: string; xp: number; ledger_seq: number; ledger_hash: string | null };

/** I1 to I5: XP and balances equal the ledger, which has no gap and whose chain is valid. */
export const checkLedger: Check = async (work, page, repair) => {
  const sums = await sumLedgers(work, page);
  const tips = await sql<Tip>`
    select id, xp, ledger_seq, ledger_hash from players
    where project_id = ${page.projectId} and id = any(${idsOf(page)}::uuid[])`.execute(work.db);
  const findings = tips.rows.flatMap((tip) => tipFindings(page, tip, sums.get(tip.id)));
  if (repair) await repairXp(work, page, { tips: tips.rows, sums });
  return [...findings, ...(await checkBalances(work, page, { sums, repair }))];
};

const xpOf = (sum: Sum | undefined): number => sum?.totals.get("XP") ?? 0;

const tipFindings = (page: Page, tip: Tip, sum: Sum | undefined): Finding[] => {
  const say = (invariant: string, message: string, isRepairable = false): Finding[] =>
    findingsOf(invariant, page, [{ playerId: tip.id, message }], isRepairable);
  const findings = sum?.problem ? say(sum.problem.invariant, sum.problem.message) : [];
  const last = sum?.seq ?? 0;
  if (tip.ledger_seq !== last)
    findings.push(...say("I3", `the player's ledger_seq is ${tip.ledger_seq}, the last line is ${last}`));
  else if (tip.ledger_hash !== (sum?.hash ?? null))
    findings.push(...say("I4", "the player's tip is not the last line's hash"));
  if (tip.xp !== xpOf(sum))
    findings.push(...say("I1", `the player has ${tip.xp} XP, the ledger says ${xpOf(sum)}`, true));
  return findings;
};

const repairXp = async (
  { db }: Work,
  { projectId }: Page,
  { tips, sums }: { tips: readonly Tip[]; sums: ReadonlyMap<string, Sum> },
): Promise<void> => {
  const wrong = tips
    .filter(({ id, xp }) => xp !== xpOf(sums.get(id)))
    .map(({ id }) => ({ i: id, xp: xpOf(sums.get(id)) }));
  if (wrong.length === 0) return;
  await sql`
    update players t set xp = x.xp
    from json_to_recordset(${JSON.stringify(wrong)}::json) as x(i uuid, xp bigint)
    where t.project_id = ${projectId} and t.id = x.i`.execute(db);
};
