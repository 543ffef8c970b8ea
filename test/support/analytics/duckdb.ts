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
   * Runs a query of `e`, the events before `asOf`: usr, type, ts, local (by the zone's clock), d (its
   * date) and props.
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
        select usr, type, ts, props, ts at time zone ${quote(timezone)} as local,
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
