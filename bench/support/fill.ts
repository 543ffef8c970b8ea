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
  const client = await pool.connect();
  await client.query("set statement_timeout = 0");
  for (let from = 0; from < rows; from += FILL_ROWS) {
    await client.query(fillStatement(projectId, from, Math.min(rows, from + FILL_ROWS)));
  }
  for (const name of ["tracked_events", "event_dedupe", "bench_events"])
    await client.query(`vacuum analyze ${name}`);
  client.release(true);
};

const EVENT_COLUMNS =
  "project_id, id, external_user_id, event_type, properties, occurred_at, received_at, idempotency_key";

const fillStatement = (projectId: string, from: number, to: number): string => `
  with r as materialized (
    select n, (lpad(to_hex((extract(epoch from now()) * 1000)::bigint - 60000 + n / 1000), 12, '0')
        || '7000a' || substr(md5(n::text), 1, 15))::uuid as id,
      md5('key' || n) as key
    from generate_series(${from}, ${to - 1}) as n),
  d as (
    insert into event_dedupe (project_id, idempotency_key, event_id, payload_hash)
    select '${projectId}', key, id, md5(n::text)::uuid from r),
  e as materialized (
    select '${projectId}'::uuid as project_id, id, 'player-' || lpad((n % ${PLAYERS})::text, 6, '0') as u,
      jsonb_build_object('level', n % 40, 'points', n % 100, 'world', 'the-whispering-forest',
        'difficulty', 'hard', 'durationSeconds', 84.25, 'deaths', n % 5,
        'powerUps', '["shield", "boost"]'::jsonb) as properties,
      key
    from r),
  o as (
    insert into bench_events (${EVENT_COLUMNS})
    select project_id, id, u, 'level_completed', properties, now(), now(), key from e)
  insert into tracked_events (${EVENT_COLUMNS})
  select project_id, id, u, 'level_completed', properties, now(), now(), key from e`;

export const storedEvents = async (pool: Pool, projectId: string): Promise<number> => {
  const { rows } = await pool.query(
    `select (select count(*) from tracked_events where project_id = $1)
      + (select count(*) from bench_events where project_id = $1) as n`,
    [projectId],
  );
  return Number(rows[0]!["n"]);
};
