import { sql } from "kysely";
import { invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { ask, type Asked } from "../ask.ts";
import { dateOfDay } from "../calendar.ts";
import { columnsOf, type FileColumn } from "./columns.ts";
import type { ExportFormat, FileStyle } from "./format.ts";
import type { Report } from "./report.ts";
import { type ReportName, REPORTS } from "./reports.ts";

/** What is asked for beside the parameters of the report. */
export type ExportFields = {
  report: ReportName;
  format: ExportFormat;
  columns?: readonly string[] | undefined;
  flatten: boolean;
  bom: boolean;
  raw: boolean;
};

/** A file that can be written: resolved, so that it is the same whenever that is done. */
export type ExportPlan = {
  report: ReportName;
  /** The report's own parameters, as its operation has parsed them. */
  query: Readonly<Record<string, unknown>>;
  asked: Asked;
  columns: readonly FileColumn[];
  flatten: boolean;
  style: FileStyle;
  /** Such as `laurel-my-game-events-2026-01-01-2026-01-31.csv`. */
  fileName: string;
};

/** Returns the report of a plan, whose parameters its operation has parsed. */
export const reportOf = ({ report }: Pick<ExportPlan, "report">): Report => REPORTS[report].report;

/** @throws DomainError VALIDATION_ERROR for what only CSV has */
const checkFormat = ({ format, flatten, bom, raw }: ExportFields): void => {
  const [wrong] = Object.entries({ flatten, bom, raw }).filter(([, isAsked]) => isAsked && format !== "csv");
  if (wrong) throw invalid(wrong[0], "is for format=csv");
};

/** Returns a name as part of a file's: letters without accents, digits and dashes. */
export const slugOf = (name: string): string =>
  name
    .normalize("NFKD")
    .replaceAll(/\p{M}/gu, "")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "")
    .slice(0, 60);

const fileNameOf = async (
  { db }: Work,
  { report, format }: ExportFields,
  { frame: { projectId }, range }: Asked,
): Promise<string> => {
  const found = await sql<{ name: string }>`
    select name from projects where id = ${projectId}::uuid`.execute(db);
  const project = slugOf(found.rows[0]?.name ?? "") || projectId;
  const dates = [range.firstDay, range.lastDay].map(dateOfDay).join("-");
  return `laurel-${project}-${report}-${dates}.${format}`;
};

/**
 * Resolves what a file is made of.
 * @throws DomainError VALIDATION_ERROR, PAYMENT_REQUIRED for a range before what the plan shows
 */
export const planExport = async (
  work: Work,
  { projectId, fields, query }: { projectId: string; fields: ExportFields; query: ExportPlan["query"] },
): Promise<ExportPlan> => {
  checkFormat(fields);
  const { report, format, flatten, bom, raw } = fields;
  const columns = columnsOf(REPORTS[report].report.columns, fields.columns);
  const asked = await ask(work, { projectId, query });
  const fileName = await fileNameOf(work, fields, asked);
  return { report, query, asked, columns, flatten, style: { format, bom, raw }, fileName };
};
