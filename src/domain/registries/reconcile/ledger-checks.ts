import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { type Check, type Finding, idsOf, type Page } from "./finding.ts";
import { checkBalances } from "./balance-checks.ts";
import { type Sum, sumLedgers } from "./ledger-sums.ts";

type Tip = { id: string; xp: string | number; ledger_seq: string | number; ledger_hash: string | null };

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

const tipFindings = ({ projectId }: Page, tip: Tip, sum: Sum | undefined): Finding[] => {
  const finding = (invariant: string, message: string, isRepairable = false): Finding => ({
    invariant,
    projectId,
    playerId: tip.id,
    message,
    isRepairable,
  });
  const findings: Finding[] = [];
  if (sum?.problem) findings.push(finding(sum.problem.invariant, sum.problem.message));
  const last = sum?.seq ?? 0;
  if (Number(tip.ledger_seq) !== last)
    findings.push(finding("I3", `the player's ledger_seq is ${tip.ledger_seq}, the last line is ${last}`));
  else if (tip.ledger_hash !== (sum?.hash ?? null))
    findings.push(finding("I4", "the player's tip is not the last line's hash"));
  if (Number(tip.xp) !== xpOf(sum))
    findings.push(finding("I1", `the player has ${tip.xp} XP, the ledger says ${xpOf(sum)}`, true));
  return findings;
};

const repairXp = async (
  { db }: Work,
  { projectId }: Page,
  { tips, sums }: { tips: readonly Tip[]; sums: ReadonlyMap<string, Sum> },
): Promise<void> => {
  const wrong = tips
    .filter(({ id, xp }) => Number(xp) !== xpOf(sums.get(id)))
    .map(({ id }) => ({ i: id, xp: xpOf(sums.get(id)) }));
  if (wrong.length === 0) return;
  await sql`
    update players t set xp = x.xp
    from json_to_recordset(${JSON.stringify(wrong)}::json) as x(i uuid, xp bigint)
    where t.project_id = ${projectId} and t.id = x.i`.execute(db);
};
