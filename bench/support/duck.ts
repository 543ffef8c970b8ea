import { createWriteStream } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { DuckDBInstance } from "@duckdb/node-api";
import type { Pool } from "./box.ts";

/** DuckDB with a project's events in its memory: `e` (usr, type, ts). */
export type Duck = {
  /** Runs a query to its end. Returns the ms that it took. */
  time(query: string): Promise<number>;
  close(): void;
};

const ROWS_AT_ONCE = 200_000;

export const openDuck = async (
  pool: Pool,
  { projectId, dir }: { projectId: string; dir: string },
): Promise<Duck> => {
  const file = join(dir, "events.csv");
  const out = createWriteStream(file);
  for (let after = "00000000-0000-0000-0000-000000000000"; ;) {
    const { rows } = await pool.query(
      `select string_agg(external_user_id || ',' || event_type || ',' || extract(epoch from occurred_at),
          E'\\n' order by id) as lines, max(id::text) as last
       from (
         select * from tracked_events where project_id = $1 and id > $2
         order by id limit ${ROWS_AT_ONCE}) x`,
      [projectId, after],
    );
    const { lines, last } = rows[0] as { lines: string | null; last: string };
    if (lines === null) break;
    out.write(`${lines}\n`);
    after = last;
  }
  await new Promise((resolve) => out.end(resolve));
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  await connection.run(`create table e as select usr, type, make_timestamp((s * 1000000)::bigint) as ts
    from read_csv('${file}', columns = {usr: 'VARCHAR', type: 'VARCHAR', s: 'DOUBLE'}, header = false)`);
  await rm(file);
  return {
    time: async (query) => {
      const startMs = performance.now();
      await connection.runAndReadAll(query);
      return performance.now() - startMs;
    },
    close: () => {
      connection.closeSync();
      instance.closeSync();
    },
  };
};
