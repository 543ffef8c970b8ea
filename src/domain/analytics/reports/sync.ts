import { isDeepStrictEqual } from "node:util";
import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";
import { putReport, readReports } from "./saved-reports.ts";

type Sync = { from: string; to: string; actor: string };
type Synced = { count: number; skipped: { key: string; reason: string }[] };

const rulesOf = async ({ db }: Work, projectId: string): Promise<ReadonlySet<unknown>> => {
  const { rows } = await sql<{ key: string }>`
    select key from rules where project_id = ${projectId}::uuid`.execute(db);
  return new Set(rows.map(({ key }) => key));
};

/**
 * Copies the saved reports of one project to another, by key, with their schedules but without those who are
 * told. Reports that only the target has stay. Must be called when the rules are copied.
 * @throws DomainError CONFLICT REPORT_LIMIT
 */
export const syncReports = async (work: Work, { from, to, actor }: Sync): Promise<Synced> => {
  const [sources, own] = [await readReports(work, from), await readReports(work, to)];
  const byKey = new Map(own.map(({ document }) => [document.key, document]));
  const rules = await rulesOf(work, to);
  const synced: Synced = { count: 0, skipped: [] };
  for (const source of sources) {
    const { key, report, parameters } = source.document;
    if (isDeepStrictEqual(byKey.get(key), source.document)) continue;
    if (report === "experiments" && !rules.has(parameters["ruleId"])) {
      synced.skipped.push({ key, reason: "its rule is not in the sandbox" });
      continue;
    }
    await putReport(work, to, { ...source, actor });
    synced.count++;
  }
  return synced;
};
