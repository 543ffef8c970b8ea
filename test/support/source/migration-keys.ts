import { lineAt, type SourceFile, withoutComments } from "./source-files.ts";

export type TableKey = { table: string; columns: string[]; isPrimary: boolean; path: string; line: number };
export type Table = { name: string; hasProjectId: boolean; path: string; line: number };

/** The text inside the parenthesis that opens at `start`. */
const insideParentheses = (text: string, start: number): string => {
  let depth = 0;
  for (let index = start; index < text.length; index += 1) {
    if (text[index] === "(") depth += 1;
    if (text[index] === ")") depth -= 1;
    if (depth === 0) return text.slice(start + 1, index);
  }
  throw new Error(`no closing parenthesis after: ${text.slice(start, start + 40)}`);
};

/** Splits at the commas that are not inside parentheses. */
const splitTopLevel = (text: string): string[] => {
  const parts = [""];
  let depth = 0;
  for (const char of text) {
    if (char === "(") depth += 1;
    if (char === ")") depth -= 1;
    if (char === "," && depth === 0) parts.push("");
    else parts[parts.length - 1] += char;
  }
  return parts.map((part) => part.trim());
};

const columnsIn = (list: string): string[] =>
  splitTopLevel(list).map((column) => column.split(/\s/)[0] ?? "");

const CONSTRAINT = /^(?:constraint\s+\w+\s+)?(primary key|unique)\s*(?:nulls not distinct\s*)?(\()/i;
const NOT_A_COLUMN = /^(constraint|primary|unique|foreign|check|exclude|like)\b/i;

const keyIn = (item: string): { columns: string[]; isPrimary: boolean } | undefined => {
  const constraint = CONSTRAINT.exec(item);
  if (constraint) {
    const list = insideParentheses(item, constraint[0].length - 1);
    return { columns: columnsIn(list), isPrimary: /primary/i.test(constraint[1] ?? "") };
  }
  const inline = NOT_A_COLUMN.test(item) ? null : /\b(primary key|unique)\b/i.exec(item);
  if (!inline) return undefined;
  return { columns: columnsIn(item), isPrimary: inline[1]?.toLowerCase() === "primary key" };
};

const CREATE_TABLE =
  /create\s+(?:unlogged\s+)?table\s+(?:if not exists\s+)?([\w$.{}"]+)\s*(\(|partition of)/gi;
const UNIQUE_INDEX =
  /create\s+unique\s+index\s+[\w\s]*?\bon\s+(?:only\s+)?([\w$.{}"]+)\s*(?:using\s+\w+\s*)?\(/gi;
const ADD_KEY =
  /alter\s+table\s+(?:only\s+)?([\w$.{}"]+)\s+add\s+(?:constraint\s+\w+\s+)?(primary key|unique)\s*\(/gi;

/** The tables that migrations create, and their primary and unique keys. */
export const readMigrations = (files: readonly SourceFile[]): { tables: Table[]; keys: TableKey[] } => {
  const tables: Table[] = [];
  const keys: TableKey[] = [];
  for (const { path, text: source } of files) {
    const text = withoutComments(source);
    for (const match of text.matchAll(CREATE_TABLE)) {
      const name = match[1] ?? "";
      const place = { path, line: lineAt(text, match.index) };
      if (match[2] !== "(") continue;
      const items = splitTopLevel(insideParentheses(text, match.index + match[0].length - 1));
      tables.push({ name, hasProjectId: items.some((item) => /^project_id\b/.test(item)), ...place });
      for (const key of items.map(keyIn)) if (key) keys.push({ table: name, ...key, ...place });
    }
    for (const match of [...text.matchAll(UNIQUE_INDEX), ...text.matchAll(ADD_KEY)]) {
      const list = insideParentheses(text, match.index + match[0].length - 1);
      keys.push({
        table: match[1] ?? "",
        columns: columnsIn(list),
        isPrimary: /primary/i.test(match[2] ?? ""),
        path,
        line: lineAt(text, match.index),
      });
    }
  }
  return { tables, keys };
};
