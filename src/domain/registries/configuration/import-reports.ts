import { sql } from "kysely";
import { checkReport, putReport, type ReportDocument } from "../../analytics/reports/documents.ts";
import type { StoredQuestion } from "../../analytics/reports/kinds.ts";
import { deleteReport } from "../../analytics/reports/saved-reports.ts";
import type { Work } from "../../kernel/work.ts";
import type { ConfigChange } from "./diff.ts";
import { naming } from "./named-error.ts";

/** The questions of a document's reports by key, as their operations have parsed them. */
export type ReportQuestions = ReadonlyMap<string, StoredQuestion>;

/** A report to create or change, with its target state. */
export type WantedReport = { change: ConfigChange; wanted: ReportDocument };

type ReportImport = {
  wanted: readonly WantedReport[];
  deleted: readonly ConfigChange[];
  questions: ReportQuestions;
  actor: string;
  signal: AbortSignal;
};

/** Fields of a report without which its question is the same. */
const BESIDE: ReadonlySet<string> = new Set(["name", "description", "schedule"]);

const isAskedAnew = ({ action, fields }: ConfigChange): boolean =>
  action === "CREATE" || fields.some((field) => !BESIDE.has(field));

const idsOf = async ({ db }: Work, projectId: string): Promise<ReadonlyMap<string, string>> => {
  const { rows } = await sql<{ key: string; id: string }>`
    select key, id from analytics_reports where project_id = ${projectId}::uuid`.execute(db);
  return new Map(rows.map(({ key, id }) => [key, id]));
};

/**
 * Deletes, creates and changes saved reports, in this order: a project has room for few. Their questions are
 * checked but not asked. Must be called when the project's rules are in their final state.
 * @throws DomainError VALIDATION_ERROR, PAYMENT_REQUIRED, CONFLICT REPORT_LIMIT, prefixed by section and key
 */
export const importReports = async (
  work: Work,
  projectId: string,
  { wanted, deleted, questions, actor, signal }: ReportImport,
): Promise<void> => {
  if (wanted.length + deleted.length === 0) return;
  const ids = await idsOf(work, projectId);
  for (const change of deleted) {
    const id = ids.get(change.key);
    // Somebody may have deleted it meanwhile.
    if (id !== undefined) await naming(change, () => deleteReport(work, { projectId, id }));
  }
  for (const { change, wanted: document } of wanted) {
    signal.throwIfAborted();
    const question = questions.get(change.key);
    if (!question) throw new Error(`the report ${change.key} was not parsed`);
    await naming(change, async () => {
      if (isAskedAnew(change)) await checkReport(work, projectId, { document, question });
      await putReport(work, projectId, { document, question, actor });
    });
  }
};
