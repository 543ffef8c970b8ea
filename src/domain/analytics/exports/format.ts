import { cellReader, type CellType, type FileColumn, type Row } from "./columns.ts";

export const EXPORT_FORMATS = ["csv", "json", "ndjson"] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

export const MEDIA_TYPES: Readonly<Record<ExportFormat, string>> = {
  csv: "text/csv; charset=utf-8",
  json: "application/json; charset=utf-8",
  ndjson: "application/x-ndjson; charset=utf-8",
};

/** How a file is written. `bom`: for Excel, which else takes UTF-8 for something else. */
export type FileStyle = { format: ExportFormat; bom: boolean; raw: boolean };

/** Writes a file piece by piece: `head`, then rows, then `tail`. */
export type FileWriter = {
  head: string;
  /** @param isFirst whether no row was written before */
  rows(rows: readonly Row[], isFirst: boolean): string;
  tail: string;
};

const BOM = "\uFEFF";

/** Spreadsheets take such texts for formulas. */
const FORMULA = /^[=+\-@\t\r]/;
const QUOTED = /[",\r\n]|^\s|\s$/;

/** Returns a text as a cell of CSV (RFC 4180): an empty one is quoted, because an empty cell is no value. */
const quoted = (text: string): string =>
  text === "" || QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

/** A leading apostrophe makes spreadsheets show the text. */
const guarded = (text: string): string => (FORMULA.test(text) ? `'${text}` : text);

const isoOf = (ms: number): string => new Date(ms).toISOString();

const csvCell = (value: unknown, type: CellType, isRaw: boolean): string => {
  if (value === null || value === undefined) return "";
  if (type === "time") return isoOf(Number(value));
  if (typeof value === "string") return quoted(isRaw ? value : guarded(value));
  const text = JSON.stringify(value);
  return typeof value === "object" ? quoted(text) : text;
};

const csvWriter = (columns: readonly FileColumn[], { bom, raw }: FileStyle): FileWriter => {
  const read = cellReader(columns);
  const line = (cells: readonly string[]): string => `${cells.join(",")}\r\n`;
  const header = line(columns.map(({ name }) => csvCell(name, "text", raw)));
  return {
    head: bom ? BOM + header : header,
    rows: (rows) =>
      rows.map((row) => line(read(row).map((value, i) => csvCell(value, columns[i]!.type, raw)))).join(""),
    tail: "",
  };
};

const jsonCell = (value: unknown, type: CellType): string => {
  if (value === null || value === undefined) return "null";
  if (type === "time") return JSON.stringify(isoOf(Number(value)));
  if (type === "json" && typeof value === "string") return value;
  return JSON.stringify(value);
};

const objectWriter = (columns: readonly FileColumn[]): ((row: Row) => string) => {
  const read = cellReader(columns);
  const names = columns.map(({ name }) => `${JSON.stringify(name)}:`);
  return (row) => {
    const cells = read(row).map((value, i) => names[i]! + jsonCell(value, columns[i]!.type));
    return `{${cells.join(",")}}`;
  };
};

/** Returns what writes rows in a format. */
export const fileWriter = (columns: readonly FileColumn[], style: FileStyle): FileWriter => {
  if (style.format === "csv") return csvWriter(columns, style);
  const write = objectWriter(columns);
  if (style.format === "ndjson")
    return { head: "", rows: (rows) => rows.map((row) => `${write(row)}\n`).join(""), tail: "" };
  return {
    head: "[",
    rows: (rows, isFirst) =>
      rows.length === 0 ? "" : (isFirst ? "" : ",\n") + rows.map((row) => write(row)).join(",\n"),
    tail: "]",
  };
};
