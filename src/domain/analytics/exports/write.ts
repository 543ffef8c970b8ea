import { SNAPSHOT, type CursorParts, type Pages, readPages } from "../../kernel/cursor.ts";
import { asOneMessage } from "../../kernel/statements.ts";
import { FoundPaths, type Row } from "./columns.ts";
import { fileWriter } from "./format.ts";
import { type ExportPlan, reportOf } from "./plan.ts";
import type { ComputedReport, RowReport } from "./report.ts";
import { rowQuery } from "./row-query.ts";
import { pagesByStretch, type Stretch } from "./stretches.ts";

/** Takes the next piece of a file; resolves when there is room for more. */
export type Put = (piece: string) => Promise<void>;

/** Rows of a computed report that are written at once. */
const ROWS_AT_ONCE = 1_000;

/**
 * Writes a file from one snapshot of the database, in pieces. What cannot be written is refused before the
 * first piece.
 * @param signal ends it where nothing is written yet
 * @returns the number of rows
 */
export const writeExport = async (
  parts: CursorParts,
  plan: ExportPlan,
  { put, signal }: { put: Put; signal: AbortSignal },
): Promise<number> => {
  const report = reportOf(plan);
  if (report.kind === "computed") return writeComputed(parts, plan, report, put);
  const found = await findRows(parts, plan, report);
  const question = { ...plan, found };
  const span = report.span?.(question);
  // Where there is one session, a cursor is what others can come in between.
  if (span && !parts.hasOneSession)
    return parts.transact(async (work) => {
      await asOneMessage(work.db, SNAPSHOT);
      const queryOf = (stretch: Stretch) => rowQuery(report, { ...question, stretch }, plan.columns);
      return writePages(plan, pagesByStretch<Row>(work, span, queryOf), { put, signal });
    });
  const query = rowQuery(report, question, plan.columns);
  return readPages<Row, number>(parts, query, (pages) => writePages(plan, pages, { put, signal }));
};

/** Finds what rows are selected by: of one snapshot, which is that of the number they are behind. */
const findRows = async (
  { transact }: CursorParts,
  { asked, query }: ExportPlan,
  report: RowReport<unknown>,
) => {
  const { find } = report;
  if (!find) return undefined;
  return transact(async (work) => {
    await asOneMessage(work.db, SNAPSHOT);
    return find(work, asked, query);
  });
};

const findColumns = async (
  { columns }: ExportPlan,
  pages: Pages<Row>,
  signal: AbortSignal,
): Promise<ExportPlan["columns"]> => {
  const found = new FoundPaths(columns);
  for (let rows = await pages.next(); rows.length > 0; rows = await pages.next()) {
    signal.throwIfAborted();
    found.add(rows);
  }
  await pages.rewind();
  return found.columns;
};

const writePages = async (
  plan: ExportPlan,
  pages: Pages<Row>,
  { put, signal }: { put: Put; signal: AbortSignal },
): Promise<number> => {
  const columns = plan.flatten ? await findColumns(plan, pages, signal) : plan.columns;
  const writer = fileWriter(columns, plan.style);
  let count = 0;
  let rows = await pages.next();
  await put(writer.head);
  for (; rows.length > 0; rows = await pages.next()) {
    await put(writer.rows(rows, count === 0));
    count += rows.length;
  }
  await put(writer.tail);
  return count;
};

const writeComputed = async (
  { transact }: CursorParts,
  { asked, query, columns, style }: ExportPlan,
  report: ComputedReport,
  put: Put,
): Promise<number> => {
  const answer = await transact(async (work) => {
    await asOneMessage(work.db, SNAPSHOT);
    return report.read(work, asked, query);
  });
  const writer = fileWriter(columns, style);
  await put(writer.head);
  let count = 0;
  for (const some of inParts(report.rows(answer), ROWS_AT_ONCE)) {
    await put(writer.rows(some, count === 0));
    count += some.length;
  }
  await put(writer.tail);
  return count;
};

/** Yields the rows in lists of at most `size`. */
export function* inParts(rows: Iterable<Row>, size: number): Generator<Row[]> {
  let part: Row[] = [];
  for (const row of rows) {
    part.push(row);
    if (part.length < size) continue;
    yield part;
    part = [];
  }
  if (part.length > 0) yield part;
}
