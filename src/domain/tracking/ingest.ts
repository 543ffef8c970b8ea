import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";
import type { NewEvent } from "./event-input.ts";

/** Result of storing one event. */
export type Ingested =
  | { kind: "stored"; eventId: string }
  | { kind: "duplicate"; existingEventId: string; isSameBody: boolean };

/** Default rows per statement; a single-connection engine, which blocks the process meanwhile, uses fewer. */
const ALL_ROWS = Number.MAX_SAFE_INTEGER;

/**
 * Stores events in the transaction of `work` and returns a result for each in order: dedupe, event and queue
 * rows in one statement, plus one look-up when there were duplicates. The first of two equal keys wins, in
 * the order given.
 * @param chunk rows per statement; smaller than the input only where one statement must not take long
 */
export const storeEvents = async (
  work: Work,
  events: readonly NewEvent[],
  chunk = ALL_ROWS,
): Promise<Ingested[]> => {
  const refused = new Set<string>();
  for (let start = 0; start < events.length; start += chunk) {
    const rows = events.slice(start, start + chunk);
    for (const id of await insert(work, rows)) refused.add(id);
  }
  const duplicates = events.filter((event) => refused.has(event.id));
  const existing =
    duplicates.length === 0 ? new Map<string, Existing>() : await findExisting(work, duplicates);
  return events.map((event) => {
    if (!refused.has(event.id)) return { kind: "stored", eventId: event.id };
    const first = existing.get(dedupeKey(event.p, event.k))!;
    return {
      kind: "duplicate",
      existingEventId: first.event_id,
      isSameBody: first.payload_hash.replaceAll("-", "") === event.x,
    };
  });
};

const dedupeKey = (projectId: string, key: string | null): string => `${projectId}\0${key}`;

/**
 * Serialises one row of the statement's parameter by hand: `properties` is JSON text already and is not
 * serialised a second time.
 */
const rowOf = (event: NewEvent, o: number): string => {
  const { id, p, u, t, d, ts, at, k, x, h } = event;
  const sender = `"u":${JSON.stringify(u)},"t":${JSON.stringify(t)}`;
  const given = `${sender},"d":${d},"k":${JSON.stringify(k)},"x":${JSON.stringify(x)}`;
  return `{"id":"${id}","p":"${p}",${given},"ts":${ts},"at":${at},"h":${h},"o":${o}}`;
};

/**
 * Inserts events. Dedupe rows are inserted in key order, so that overlapping batches cannot deadlock, and by
 * ordinal within a key, so that the first one wins. Events without a key bypass the dedupe table.
 * @returns the ids of the duplicates, which are not stored
 */
const insert = async ({ db }: Work, events: readonly NewEvent[]): Promise<string[]> => {
  const rows = `[${events.map(rowOf).join()}]`;
  const result = await sql<{ id: string }>`
    with r as materialized (
      select * from jsonb_to_recordset(${rows}::jsonb) as r(
        id uuid, p uuid, u text, t text, d jsonb, ts float8, at float8, k text, x uuid, h smallint, o int)),
    dd as (
      insert into event_dedupe (project_id, idempotency_key, event_id, payload_hash)
      select p, k, id, x from r where k is not null order by p, k, o
      on conflict do nothing returning event_id),
    fresh as materialized (select r.* from r where k is null or id in (select event_id from dd)),
    e as (
      insert into tracked_events
        (project_id, id, external_user_id, event_type, properties, occurred_at, received_at, idempotency_key)
      select p, id, u, t, d, to_timestamp(ts / 1000), to_timestamp(at / 1000), k from fresh order by o),
    q as (insert into event_q (project_id, part, event_id) select p, h, id from fresh order by o)
    select id from r where k is not null and id not in (select event_id from dd)`.execute(db);
  return result.rows.map((row) => row.id);
};

type Existing = { project_id: string; idempotency_key: string; event_id: string; payload_hash: string };

const findExisting = async ({ db }: Work, events: readonly NewEvent[]): Promise<Map<string, Existing>> => {
  const keys = events.map(({ p, k }) => ({ p, k }));
  const result = await sql<Existing>`
    select d.project_id, d.idempotency_key, d.event_id, d.payload_hash
    from json_to_recordset(${JSON.stringify(keys)}::json) as r(p uuid, k text)
    join event_dedupe d on d.project_id = r.p and d.idempotency_key = r.k`.execute(db);
  return new Map(result.rows.map((row) => [dedupeKey(row.project_id, row.idempotency_key), row]));
};
