import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { type Finding, idsOf, type Page } from "./finding.ts";
import type { Sum } from "./ledger-sums.ts";

type Row = {
  player_id: string;
  currency_key: string;
  balance: string | number;
  held: string | number;
  holds: string | number | null;
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

type CheckInput = { sums: ReadonlyMap<string, Sum>; repair: boolean };

/** I2 and I5: balances are the sums of their ledger entries, and held amounts those of open holds. */
export const checkBalances = async (
  work: Work,
  page: Page,
  { sums, repair }: CheckInput,
): Promise<Finding[]> => {
  const compared = compare(await readBalances(work, page), sums);
  const wrong = compared.filter(({ balance, held, total, holds }) => balance !== total || held !== holds);
  if (repair && wrong.length > 0) await repairBalances(work, page, wrong);
  return wrong.flatMap((one) => findingsOf(page, one));
};

const readBalances = async ({ db }: Work, page: Page): Promise<readonly Row[]> => {
  const { rows } = await sql<Row>`
    select coalesce(b.player_id, h.player_id) as player_id,
      coalesce(b.currency_key, h.currency_key) as currency_key,
      coalesce(b.balance, 0) as balance, coalesce(b.held, 0) as held, h.amount as holds
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
const compare = (rows: readonly Row[], sums: ReadonlyMap<string, Sum>): Compared[] => {
  const compared = new Map<string, Compared>();
  for (const row of rows) {
    const { player_id: playerId, currency_key: currencyKey } = row;
    const kept = { balance: Number(row.balance), held: Number(row.held), holds: Number(row.holds ?? 0) };
    compared.set(`${playerId} ${currencyKey}`, { playerId, currencyKey, ...kept, total: 0 });
  }
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

const findingsOf = (
  { projectId }: Page,
  { playerId, currencyKey, balance, held, total, holds }: Compared,
): Finding[] => {
  const finding = (invariant: string, message: string): Finding => ({
    invariant,
    projectId,
    playerId,
    message: `${currencyKey}: ${message}`,
    isRepairable: true,
  });
  const findings: Finding[] = [];
  if (balance !== total) findings.push(finding("I2", `the balance is ${balance}, the ledger says ${total}`));
  if (held !== holds) findings.push(finding("I5", `${held} are held, open holds hold ${holds}`));
  return findings;
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
