import { columnsOf } from "../exports/columns.ts";
import { type ExportFormat, fileWriter } from "../exports/format.ts";
import { inParts } from "../exports/write.ts";
import { type SavedKindName, savedKind } from "./kinds.ts";

const ROWS_AT_ONCE = 1_000;

/**
 * Writes the answer of a report as a file, as GET /analytics/export does.
 * @param put takes the next piece
 * @returns the number of rows
 */
export const writeAnswer = async (
  { report: name, answer }: { report: SavedKindName; answer: unknown },
  format: ExportFormat,
  put: (piece: string) => Promise<void>,
): Promise<number> => {
  const { report } = savedKind(name);
  const writer = fileWriter(columnsOf(report.columns, undefined), { format, bom: false, raw: false });
  let count = 0;
  await put(writer.head);
  for (const rows of inParts(report.rows(answer), ROWS_AT_ONCE)) {
    await put(writer.rows(rows, count === 0));
    count += rows.length;
  }
  await put(writer.tail);
  return count;
};
