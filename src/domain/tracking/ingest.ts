import { sql } from "kysely";
import { monthOf } from "../kernel/usage-counters.ts";
import { kept } from "../kernel/statements.ts";
import type { Work } from "../kernel/work.ts";
import type { NewEvent } from "./event-input.ts";

/** Result of storing one event. */
export type Ingested =
  | { kind: "stored"; eventId: string }
  | { kind: "duplicate"; existingEventId: string; isSameBody: boolean; isReverted: boolean };

/** Default rows per statement; a single-connection engine, which blocks the process meanwhile, uses fewer. */
const ALL_ROWS = Number.MAX_SAFE_INTEGER;

/** A project `p` whose events are counted for the tenant `t`, up to a sum of `m` of all its projects. */
export type Payer = { p: string; t: string; m: number | null };

/** Where events are counted: in the rows of `slot`. */
export type Counting = {
  payers: readonly Payer[];
  slot: number;
  /** Returns what to throw when tenants have no room for their events. */
  lacking(tenantIds: readonly string[]): Error;
};

/**
 * Stores events in the transaction of `work` and returns a result for each in order: dedupe, event and queue
 * rows and what is counted in one statement, plus one look-up when there were duplicates. The first of two
 * equal keys wins, in the order given.
 * @param chunk rows per statement; smaller than the input only where one statement must not take long
 */
export const storeEvents = async (
  work: Work,
  events: readonly NewEvent[],
  { chunk = ALL_ROWS, counting }: { chunk?: number; counting?: Counting } = {},
): Promise<Ingested[]> => {
  const refused = new Set<string>();
  for (let start = 0; start < events.length; start += chunk) {
    const rows = events.slice(start, start + chunk);
    const { duplicates, lacking } = await insert(work, rows, counting);
    if (lacking.length > 0) throw counting!.lacking(lacking);
    for (const id of duplicates) refused.add(id);
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
      isReverted: first.is_reverted,
    };
  });
};

/** Identifies a key of a project. */
export const dedupeKey = (projectId: string, key: string | null): string => `${projectId}\0${key}`;

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

type Inserted = { duplicates: readonly string[]; lacking: readonly string[] };

/**
 * Counts what `fresh` has, in the order of tenants: those without a limit always, others within the room that
 * their rows were given. `lacking` has the tenants for whose events there was none.
 */
const counted = ({ serverNow }: Work, { payers, slot }: Counting) => sql`,
    n as materialized (
      select m.t, m.m, count(*) as c
      from fresh join json_to_recordset(${JSON.stringify(payers)}::json) as m(p uuid, t uuid, m bigint)
        on m.p = fresh.p
      group by m.t, m.m),
    u as (
      insert into usage_counters as u (tenant_id, month, slot, events, cap)
      select t, ${monthOf(serverNow)}::int, ${slot}::smallint, c, m from n order by t
      on conflict (tenant_id, month, slot) do update set events = u.events + excluded.events
        where excluded.cap is null
          or (u.cap = excluded.cap and u.events + excluded.events <= u.granted)
      returning tenant_id, events <= granted as has_room),
    lacking as (select t from n where m is not null and t not in (select tenant_id from u where has_room))`;

/**
 * Inserts events. Dedupe rows are inserted in key order, so that overlapping batches cannot deadlock, and by
 * ordinal within a key, so that the first one wins. Events without a key bypass the dedupe table. Those that
 * are new are counted last.
 * @returns the ids of the duplicates, which are not stored, and tenants whose events had no room
 */
const insert = async (
  work: Work,
  events: readonly NewEvent[],
  counting: Counting | undefined,
): Promise<Inserted> => {
  const rows = `[${events.map(rowOf).join()}]`;
  const result = await kept(
    work.db,
    sql<{ id: string; lacks: boolean }>`
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
    ${counting ? counted(work, counting) : sql``}
    select id, false as lacks from r where k is not null and id not in (select event_id from dd)
    ${counting ? sql`union all select t, true from lacking` : sql``}`,
  );
  return {
    duplicates: result.rows.filter(({ lacks }) => !lacks).map(({ id }) => id),
    lacking: result.rows.filter(({ lacks }) => lacks).map(({ id }) => id),
  };
};

type Existing = {
  project_id: string;
  idempotency_key: string;
  event_id: string;
  payload_hash: string;
  is_reverted: boolean;
};

/** Returns the events stored under the keys of the given ones, by `dedupeKey`. */
export const findExisting = async (
  { db }: Work,
  events: readonly NewEvent[],
): Promise<Map<string, Existing>> => {
  const keys = events.map(({ p, k }) => ({ p, k }));
  const result = await sql<Existing>`
    select d.project_id, d.idempotency_key, d.event_id, d.payload_hash,
      coalesce(e.status = 'REVERTED', false) as is_reverted
    from json_to_recordset(${JSON.stringify(keys)}::json) as r(p uuid, k text)
    join event_dedupe d on d.project_id = r.p and d.idempotency_key = r.k
    left join event_results e on e.project_id = d.project_id and e.event_id = d.event_id`.execute(db);
  return new Map(result.rows.map((row) => [dedupeKey(row.project_id, row.idempotency_key), row]));
};
