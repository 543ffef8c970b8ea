import { invalid } from "../../kernel/errors.ts";
import { isJsonObject } from "../../kernel/json.ts";

/**
 * What the cells of a column hold. `time`: ms since 1970. `json`: JSON text. `any`: a value in one
 * of JSON, of whatever type.
 */
export type CellType = "text" | "number" | "boolean" | "time" | "json" | "any";

/** A column that a report has. */
export type ReportColumn = {
  name: string;
  type: CellType;
  /** Only written where `columns` names it. */
  isExtra?: true;
};

/** A column of a file: one of the report, or, with `path`, a value within one that holds JSON. */
export type FileColumn = { name: string; type: CellType; of: string; path?: readonly string[] };

export type Row = Readonly<Record<string, unknown>>;

/** Most columns of a file. */
export const COLUMNS_MAX = 200;
/** Levels of objects that become columns; what is deeper stays JSON. */
const DEPTH_MAX = 8;

const named = ({ name, type }: ReportColumn): FileColumn => ({ name, type, of: name });

/** Names of properties may have dots: those are written as `\.`. */
const escaped = (key: string): string => key.replaceAll("\\", "\\\\").replaceAll(".", "\\.");

/** The name of a value's column: `properties.match.score`. */
const nameOf = (of: string, path: readonly string[]): string => [of, ...path.map(escaped)].join(".");

const pathOf = (text: string): string[] => {
  const parts = text.match(/(?:\\.|[^\\.])+/gs) ?? [];
  return parts.map((part) => part.replaceAll(/\\(.)/gs, "$1"));
};

const columnNamed = (columns: readonly ReportColumn[], name: string): FileColumn => {
  const own = columns.find((column) => column.name === name);
  if (own) return named(own);
  const outer = columns.find(({ type, name: of }) => type === "json" && name.startsWith(`${of}.`));
  const path = outer ? pathOf(name.slice(outer.name.length + 1)) : [];
  if (!outer || path.length === 0 || nameOf(outer.name, path) !== name)
    throw invalid(
      "columns",
      `the report has no ${name}: it has ${columns.map((one) => one.name).join(", ")}`,
    );
  return { name, type: "any", of: outer.name, path };
};

/**
 * Returns the columns of a file: those named, in that order, or all of the report's but its extra ones.
 * @throws DomainError VALIDATION_ERROR for a name that the report does not have, or has twice
 */
export const columnsOf = (
  columns: readonly ReportColumn[],
  names: readonly string[] | undefined,
): FileColumn[] => {
  if (names === undefined) return columns.filter(({ isExtra }) => !isExtra).map(named);
  if (names.length > COLUMNS_MAX) throw invalid("columns", `at most ${COLUMNS_MAX} columns`);
  if (new Set(names).size < names.length) throw invalid("columns", "each column is named once");
  return names.map((name) => columnNamed(columns, name));
};

/** Finds the values within columns of JSON that rows have: one column for each. */
export class FoundPaths {
  readonly #columns: readonly FileColumn[];
  readonly #paths = new Map<string, FileColumn>();

  /** @param found columns that `columns` has returned, of earlier rows */
  constructor(columns: readonly FileColumn[], found: readonly FileColumn[] = []) {
    this.#columns = columns;
    for (const column of found) this.#paths.set(column.name, column);
  }

  /** Looks through rows. @throws DomainError VALIDATION_ERROR for more columns than a file has */
  add(rows: readonly Row[]): void {
    for (const column of this.#columns) {
      if (column.type !== "json") continue;
      for (const row of rows) this.#addValue(column.of, [], jsonOf(row[column.of]));
    }
    if (this.#paths.size > COLUMNS_MAX)
      throw invalid("flatten", `gives more than ${COLUMNS_MAX} columns: name those that you want in columns`);
  }

  #addValue(of: string, path: readonly string[], value: unknown): void {
    if (this.#paths.size > COLUMNS_MAX) return;
    const isInner = isJsonObject(value) && Object.keys(value).length > 0 && path.length < DEPTH_MAX;
    if (isInner) {
      for (const [key, inner] of Object.entries(value)) this.#addValue(of, [...path, key], inner);
      return;
    }
    if (path.length === 0) return;
    const name = nameOf(of, path);
    if (!this.#paths.has(name)) this.#paths.set(name, { name, type: "any", of, path });
  }

  /** Everything found, by name. */
  get found(): FileColumn[] {
    return [...this.#paths.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The columns of the file: each of JSON is replaced by those found within it. */
  get columns(): FileColumn[] {
    const { found } = this;
    return this.#columns.flatMap((column) =>
      column.type === "json" ? found.filter(({ of }) => of === column.of) : [column],
    );
  }
}

const jsonOf = (value: unknown): unknown => (typeof value === "string" ? JSON.parse(value) : undefined);

/** Returns what reads the cells of rows in the order of columns; JSON is parsed once a row. */
export const cellReader = (columns: readonly FileColumn[]): ((row: Row) => unknown[]) => {
  const isParsed = columns.some(({ path }) => path !== undefined);
  if (!isParsed) return (row) => columns.map(({ of }) => row[of]);
  return (row) => {
    const parsed = new Map<string, unknown>();
    return columns.map(({ of, path }) => {
      if (path === undefined) return row[of];
      if (!parsed.has(of)) parsed.set(of, jsonOf(row[of]));
      return valueAt(parsed.get(of), path);
    });
  };
};

const valueAt = (value: unknown, path: readonly string[]): unknown => {
  let at = value;
  for (const key of path) {
    if (!isJsonObject(at) || !Object.hasOwn(at, key)) return undefined;
    at = at[key];
  }
  return at;
};
