import type { Pool } from "./box.ts";
import { PLAYERS } from "./sample.ts";

/** Rows of one INSERT while filling: below the statement time-out. */
const FILL_ROWS = 250_000;

/**
 * Makes the table of the minimal server that stores a key once: the columns and keys of the events table in
 * one table.
 */
export const createOnceTable = async (pool: Pool): Promise<void> => {
  await pool.query("create table bench_events (like tracked_events, primary key (project_id, id))");
  await pool.query("create index on bench_events (project_id, external_user_id, id)");
  await pool.query("create unique index on bench_events (project_id, idempotency_key)");
};

/** Every table that ingestion writes, empty again. */
export const clearEvents = async (pool: Pool): Promise<void> => {
  await pool.query("truncate tracked_events, event_dedupe, event_q, event_due, event_results, bench_events");
};

/**
 * Puts `rows` events of the past minutes into the tables, as if they had been accepted: ids in the order of
 * time, random idempotency keys.
 */
export const fillEvents = async (pool: Pool, projectId: string, rows: number): Promise<void> => {
  for (let from = 0; from < rows; from += FILL_ROWS) {
    const to = Math.min(rows, from + FILL_ROWS);
    await pool.query(
      `with r as materialized (
        select n, (lpad(to_hex((extract(epoch from now()) * 1000)::bigint - 60000 + n / 1000), 12, '0')
            || '7000a' || substr(md5(n::text), 1, 15))::uuid as id,
          md5('key' || n) as key
        from generate_series($2::int, $3::int - 1) as n),
      d as (
        insert into event_dedupe (project_id, idempotency_key, event_id, payload_hash)
        select $1::uuid, key, id, md5(n::text)::uuid from r)
      insert into tracked_events
        (project_id, id, external_user_id, event_type, properties, occurred_at, received_at, idempotency_key)
      select $1::uuid, id, 'player-' || lpad((n % ${PLAYERS})::text, 6, '0'), 'level_completed',
        jsonb_build_object('level', n % 40, 'points', n % 100, 'world', 'the-whispering-forest',
          'difficulty', 'hard',
          'durationSeconds', 84.25, 'deaths', n % 5, 'powerUps', '["shield", "boost"]'::jsonb),
        now(), now(), key from r`,
      [projectId, from, to],
    );
  }
  for (const part of [0, 1, 2, 3]) {
    await pool.query(
      "insert into bench_events select * from tracked_events where abs(hashtext(id::text)) % 4 = $1",
      [part],
    );
  }
  for (const name of ["tracked_events", "event_dedupe", "bench_events"])
    await pool.query(`vacuum analyze ${name}`);
};

export const storedEvents = async (pool: Pool, projectId: string): Promise<number> => {
  const { rows } = await pool.query(
    `select (select count(*) from tracked_events where project_id = $1)
      + (select count(*) from bench_events where project_id = $1) as n`,
    [projectId],
  );
  return Number(rows[0]!["n"]);
};
