import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { newId } from "../../../src/domain/kernel/ids.ts";

type Value = string | number | null;
export type OracleRow = Record<string, Value>;

/**
 * A second implementation of analytics: DuckDB's own SQL over exported events, by its own calendars of zones
 * (ICU). Dates are YYYY-MM-DD, `asOf` is an instant.
 */
export type Oracle = {
  /**
   * Runs a query of `e`, the events before `asOf`: usr, type, ts, seq (orders equal times), local (by the
   * zone's clock), d (its date) and props.
   */
  ask(asked: { timezone: string; asOf: string }, query: string): Promise<OracleRow[]>;
  close(): void;
};

/** Quotes a text as SQL. */
export const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** Loads what GET /analytics/export gives of events as NDJSON. */
export const openOracle = async (ndjson: string): Promise<Oracle> => {
  const instance = await DuckDBInstance.create(":memory:", { threads: "1" });
  const connection: DuckDBConnection = await instance.connect();
  const file = join(tmpdir(), `laurel-events-${newId()}.ndjson`);
  writeFileSync(file, ndjson);
  try {
    await connection.run(`
      create table ev as select "externalUserId" as usr, "eventType" as type, "timestamp"::timestamptz as ts,
        properties as props
      from read_json(${quote(file)}, format = 'newline_delimited', columns = {externalUserId: 'VARCHAR',
        eventType: 'VARCHAR', "timestamp": 'VARCHAR', idempotencyKey: 'VARCHAR', properties: 'JSON'})`);
  } finally {
    rmSync(file);
  }
  return {
    ask: async ({ timezone, asOf }, query) => {
      const events = `
        select usr, type, ts, rowid as seq, props, ts at time zone ${quote(timezone)} as local,
          (ts at time zone ${quote(timezone)})::date as d
        from ev where ts < ${quote(asOf)}::timestamptz`;
      const read = await connection.runAndReadAll(`with e as (${events}) ${query}`);
      return read.getRowObjectsJson() as OracleRow[];
    },
    close: () => {
      connection.closeSync();
      instance.closeSync();
    },
  };
};

/** Which days are asked about, in which zone, and what is known. */
export type AskedOracle = { timezone: string; asOf: string; from: string; to: string };

export const list = (texts: readonly string[]): string => `(${texts.map(quote).join(", ")})`;

export const dateOf = (text: string): string => `date ${quote(text)}`;

export const numberOf = (row: OracleRow | undefined, name: string): number => Number(row?.[name] ?? 0);

/** A quotient of whole numbers, rounded exactly: what is halfway is rounded up. */
export const ratio = (part: number | bigint, of: number | bigint, decimals: number): number => {
  const factor = 10 ** decimals;
  const [n, d] = [BigInt(part) * BigInt(factor), BigInt(of)];
  return Number((2n * n + d) / (2n * d)) / factor;
};

/** A share, with six decimals: 0 of nothing. */
export const shareOf = (part: number, of: number): number => (of === 0 ? 0 : ratio(part, of, 6));

/** A property as a value of a breakdown. */
export const valueOf = (property: string): string =>
  `coalesce(json_extract_string(props, ${quote(`$.${property}`)}), '(none)')`;

/** A property where it is a number. */
export const numberIn = (property: string): string => {
  const path = quote(`$.${property}`);
  return `case when json_type(props, ${path}) in ('BIGINT', 'UBIGINT', 'DOUBLE')
    then json_extract_string(props, ${path})::double end`;
};

export const total = (rows: readonly OracleRow[], name: string): number =>
  rows.reduce((sum, row) => sum + numberOf(row, name), 0);

/** The rows of a column `i`. */
export const inColumn = (rows: readonly OracleRow[], i: number): OracleRow[] =>
  rows.filter((row) => numberOf(row, "i") === i);

/** Divides rows by `value`: the values with the largest `size` first, beyond the limit all others as one. */
export const byValue = (rows: readonly OracleRow[], limit: number): [string, OracleRow[]][] => {
  const values = [...Map.groupBy(rows, ({ value }) => String(value))]
    .map(([value, own]) => ({ value, own, size: total(inColumn(own, 0), "size") }))
    .toSorted((a, b) => b.size - a.size || (a.value < b.value ? -1 : 1));
  const named = values.slice(0, limit).map(({ value, own }): [string, OracleRow[]] => [value, own]);
  if (values.length <= limit) return named;
  return [...named, ["(other)", values.slice(limit).flatMap(({ own }) => own)]];
};
