import { type RawBuilder, sql } from "kysely";
import { noEffects } from "../evaluation/effects.ts";
import { createSharedCounters } from "../evaluation/shared-counters.ts";
import { failedTrace } from "../evaluation/trace/trace.ts";
import type { Json } from "../kernel/events/events.ts";
import { NIL_ID, PARTITIONS } from "../kernel/ids.ts";
import { outboxRow, storedBytes } from "../kernel/outbox.ts";
import { RETRY_DELAYS_MS } from "../kernel/outages.ts";
import { kept } from "../kernel/statements.ts";
import { LOCK_SPACES, type Work } from "../kernel/work.ts";
import { saveBatch } from "./save.ts";
import { insertWarehouseChangesOf } from "../kernel/events/warehouse-changes.ts";
import { type Read, statementOf } from "../kernel/read.ts";

/** Projects of a partition that one claim looks at; the next claim continues with the following ones. */
const CLAIM_PROJECTS = 200;

/** A tracked event as claimed from the queue. */
export type QueuedEvent = {
  part: number;
  seq: number;
  projectId: string;
  eventId: string;
  attempts: number;
  externalUserId: string;
  eventType: string;
  properties: Json;
  occurredAt: Date;
  /** Since a process died with it in hand: how many such events at most are evaluated together. */
  together: number | null;
};

/** A partition and the project after which its next claim begins; FIRST_PROJECT to start over. */
export type PartitionCursor = { part: number; afterProject: string };

export const FIRST_PROJECT = NIL_ID;
const LAST_PROJECT = "ffffffff-ffff-ffff-ffff-ffffffffffff";

/**
 * Returns each partition once, where it came first, with the earliest of its projects. A transaction is
 * granted its own locks again, so a partition that is named twice would be read twice, and its events applied
 * twice.
 */
export const onePerPartition = (cursors: readonly PartitionCursor[]): PartitionCursor[] => {
  const earliest = new Map<number, PartitionCursor>();
  for (const cursor of cursors) {
    const known = earliest.get(cursor.part);
    if (!known || cursor.afterProject < known.afterProject) earliest.set(cursor.part, cursor);
  }
  return [...earliest.values()];
};

/**
 * `parts`, `together`: partitions are locked until so many are, with so many events; `each`: maximum counted
 * in one; `closed`: ids of projects whose events are ignored.
 */
type ClaimSizes = { parts: number; together: number; each: number; closed: readonly string[] };

/**
 * Result of trying to lock a partition: MINE is locked until commit, with `waiting` events seen before. With
 * `more`, events of closed projects wait in it. `isNoted`: a claim had events of it in hand.
 */
export type PartitionScan = PartitionCursor & {
  waiting: number;
  more: boolean;
  isNoted: boolean;
  state: "MINE" | "EMPTY" | "BUSY" | "LEFT";
};

/**
 * Bytes of event properties read by a claim, unless it has one event: parsed, they may take twenty times as
 * much memory.
 */
export const CLAIM_BYTES_MAX = 2 * 1024 * 1024;

/** Returns the ranges of ids between those of closed projects, ends excluded. */
const gapsOf = (closed: readonly string[]): { lo: string; hi: string }[] => {
  const ends = [FIRST_PROJECT, ...closed.toSorted(), LAST_PROJECT];
  return ends.slice(1).map((hi, i) => ({ lo: ends[i]!, hi }));
};

/**
 * Locks partitions for this transaction, in the order given, until enough events wait in them for a batch:
 * many partitions where few events arrive, one where many wait. A separate statement on purpose: one that
 * also read the queue would see it as of before the lock was granted, and apply events twice; the counts here
 * only decide how much to take. It never waits, so it cannot deadlock.
 */
export const lockPartitions = async (
  { db }: Work,
  cursors: readonly PartitionCursor[],
  { parts, together, each, closed }: ClaimSizes,
): Promise<PartitionScan[]> => {
  const asked = cursors.map(({ part, afterProject }, o) => ({ o, p: part, a: afterProject }));
  // Row by row: the lock of a partition is requested only if the ones before were not enough.
  const result = await kept(
    db,
    sql<{ o: number; n: number; ok: boolean | null; more: boolean; noted: boolean }>`
    with recursive x as materialized (
      select * from json_to_recordset(${JSON.stringify(asked)}::json) as x(o int, p smallint, a uuid)),
    g as materialized (
      select * from json_to_recordset(${JSON.stringify(gapsOf(closed))}::json) as g(lo uuid, hi uuid)),
    w(o, n, ok, upto, locked) as (
      select -1, 0::bigint, null::boolean, 0::bigint, 0
      union all
      select x.o, c.n, l.ok, w.upto + case when l.ok then c.n else 0 end, w.locked + coalesce(l.ok, false)::int
      from w join x on x.o = w.o + 1
      cross join lateral (select case when w.upto < ${together}::bigint or w.locked < ${parts}::int then (
        select count(*) from (
          select 1 from g cross join lateral (
            select 1 from event_q q
            where q.part = x.p and q.project_id > greatest(x.a, g.lo) and q.project_id < g.hi
            limit ${each}) q
          limit ${each}) q)
        else -1 end as n) c
      cross join lateral (
        select case when c.n > 0
          then pg_try_advisory_xact_lock(${LOCK_SPACES.QUEUE}::int, x.p::int) end as ok) l)
    select w.o, w.n, w.ok, exists (
      select 1 from event_q q where q.part = x.p and q.project_id = any(${`{${closed.join(",")}}`}::uuid[])
    ) as more, exists (select 1 from event_claims c where c.part = x.p) as noted
    from w join x on x.o = w.o order by w.o`,
  );
  return result.rows.map(({ o, n, ok, more, noted }) => {
    const place = { ...cursors[o]!, waiting: Math.max(0, n), more, isNoted: noted };
    if (ok !== null) return { ...place, state: ok ? "MINE" : "BUSY" };
    return { ...place, state: n < 0 ? "LEFT" : "EMPTY" };
  });
};

/** The columns of a `QueuedEvent`, of a row `q` of the queue and a tracked event `e`. */
export const QUEUED_EVENT = sql`q.part, q.seq, q.project_id as "projectId", q.event_id as "eventId", q.attempts,
  e.external_user_id as "externalUserId", e.event_type as "eventType", e.properties,
  e.occurred_at as "occurredAt", q.together`;

type ClaimRow = QueuedEvent & { tenantId: string; lastProject: string | null };

/** How many events a claim has of a tenant beside those of others, or how many times as many as of the next. */
const OWN_MAX = 50;
const OWN_FACTOR = 2;

/** Events read by a claim in the order of their evaluation, their tenants, and where the next claim continues. */
type ClaimedEvents = {
  events: QueuedEvent[];
  tenants: ReadonlySet<string>;
  /** The last project looked at, by partition where more have events. */
  places: ReadonlyMap<number, string>;
};

/** At most `limit` events, of at most `projects` of each partition, without those of `closed` ones. */
type ReadSizes = { limit: number; closed?: readonly string[]; projects?: number };

/**
 * Reads the next events of locked partitions, within CLAIM_BYTES_MAX: one of each tenant, then a second one
 * of each, and so on, however many projects and partitions a tenant has them in. Beside those of others it
 * has few of a long backlog, and is soon over. A tenant's events are in the order in which they came. The
 * limit of 1 keeps the planner to one index look-up per event: as a join it scanned all events. The limit that
 * is a query lets it keep the plan: knowing the number, it would plan anew for each claim.
 */
export const claimEvents = async (
  { db }: Work,
  cursors: readonly PartitionScan[],
  { limit, closed = [], projects = CLAIM_PROJECTS }: ReadSizes,
): Promise<ClaimedEvents> => {
  if (cursors.length === 0) return { events: [], tenants: new Set(), places: new Map() };
  const asked = cursors.map(({ part, afterProject }) => ({ p: part, a: afterProject }));
  const { rows } = await kept(
    db,
    sql<ClaimRow>`
    with recursive w(part, project_id, n) as (
      select x.p, (select q.project_id from event_q q where q.part = x.p and q.project_id > x.a
        order by q.project_id limit 1), 1
      from json_to_recordset(${JSON.stringify(asked)}::json) as x(p smallint, a uuid)
      union all
      select w.part, (select q.project_id from event_q q where q.part = w.part
        and q.project_id > w.project_id order by q.project_id limit 1), w.n + 1
      from w where w.project_id is not null and w.n < ${projects}::int),
    lanes as materialized (
      select w.part, w.project_id, coalesce(p.tenant_id, w.project_id) as tenant_id, count(*) over () as lanes,
        case when max(w.n) over (partition by w.part) = ${projects}::int
          then first_value(w.project_id) over (partition by w.part order by w.n desc) end as last_project
      from w left join projects p on p.id = w.project_id where w.project_id is not null),
    c as materialized (
      select lanes.tenant_id, lanes.last_project, q.*,
        row_number() over (partition by q.part, q.project_id order by q.seq) as nth
      from lanes cross join lateral (
        select part, project_id, seq, event_id, attempts, together from event_q
        where part = lanes.part and project_id = lanes.project_id order by seq
        limit least(${limit}::bigint, greatest(1, 4 * ${limit}::bigint / lanes.lanes))) q
      where lanes.project_id <> all(${`{${closed.join(",")}}`}::uuid[])),
    turns as (
      select c.*, row_number() over (partition by tenant_id order by nth, random()) as turn from c),
    most as (
      select max(turn) as turn from turns group by tenant_id order by max(turn) desc offset 1 limit 1),
    picked as (
      select * from turns
      where turn <= coalesce((select greatest(${OWN_MAX}, ${OWN_FACTOR} * turn) from most), turn)
      order by turn, random() limit (select ${limit}::bigint)),
    placed as materialized (
      select picked.*, row_number() over (partition by tenant_id order by seq) as own from picked),
    e as materialized (
      select ${QUEUED_EVENT}, q.tenant_id as "tenantId", q.last_project as "lastProject",
        sum(${storedBytes("e.properties")}) over (order by q.own, q.seq) as upto,
        row_number() over (order by q.own, q.seq) as place
      from placed q cross join lateral (
        select * from tracked_events e where e.project_id = q.project_id and e.id = q.event_id limit 1) e)
    select part, seq, "projectId", "eventId", attempts, "externalUserId", "eventType", properties, "occurredAt",
      together, "tenantId", "lastProject"
    from e where upto <= ${CLAIM_BYTES_MAX}::bigint or place = 1 order by place`,
  );
  return {
    events: rows.map(({ tenantId: _tenant, lastProject: _last, ...event }) => event),
    tenants: new Set(rows.map(({ tenantId }) => tenantId)),
    places: new Map(rows.flatMap(({ part, lastProject: last }) => (last === null ? [] : [[part, last]]))),
  };
};

/** Postpones a failed event until it is due, so that it blocks no others. */
const postponeEvent = async ({ db, now }: Work, event: QueuedEvent): Promise<void> => {
  const dueAt = new Date(now.getTime() + RETRY_DELAYS_MS[event.attempts]!).toISOString();
  await sql`
    with q as (
      delete from event_q
      where project_id = ${event.projectId} and part = ${event.part} and seq = ${event.seq}
      returning project_id, event_id, part, together)
    insert into event_due (project_id, event_id, part, attempts, due_at, together)
    select project_id, event_id, part, ${event.attempts + 1}::smallint, ${dueAt}::timestamptz, together from q`.execute(
    db,
  );
};

/** Marks an event as FAILED for good and publishes `event.failed`. */
const failEvent = async (work: Work, event: QueuedEvent, error: unknown): Promise<void> => {
  const { projectId, eventId, eventType, externalUserId, part, seq } = event;
  const message = (error instanceof Error ? error.message : String(error)).slice(0, 500);
  const attempts = event.attempts + 1;
  const failed = outboxRow(projectId, "event.failed", {
    eventId,
    eventType,
    externalUserId,
    error: message,
    attempts,
  });
  const batch = {
    players: [],
    effects: {
      ...noEffects(),
      outbox: [failed],
      traces: [failedTrace(event, { error: message, now: work.now })],
    },
    shared: createSharedCounters("REFUSED"),
    verdicts: [{ projectId, eventId, status: "FAILED" as const, error: message, attempts }],
    done: [{ projectId, part, seq }],
  };
  await saveBatch(work, batch);
};

/** Lets events be evaluated with others again. */
export const joinOthers = async ({ db }: Work, events: readonly QueuedEvent[]): Promise<void> => {
  const ids = `{${events.map(({ eventId }) => eventId).join(",")}}`;
  const projects = `{${events.map(({ projectId }) => projectId).join(",")}}`;
  await sql`update event_q set together = null
    where project_id = any(${projects}::uuid[]) and event_id = any(${ids}::uuid[])`.execute(db);
};

type Failed = { event: QueuedEvent; error: unknown; onError: (error: unknown, event: QueuedEvent) => void };

/** Retries the event later, or fails it after the last attempt. */
export const countTry = async (work: Work, { event, error, onError }: Failed): Promise<void> => {
  onError(error, event);
  if (event.attempts < RETRY_DELAYS_MS.length) await postponeEvent(work, event);
  else await failEvent(work, event, error);
};

/** Maximum events requeued in one sweep. */
const SWEEP_MAX = 1_000;

/** Files for a warehouse have said of events that they wait, for as long as they did. */
const TOLD = insertWarehouseChangesOf("CHANGED", sql`select project_id, event_id as ref from due`);

/** Requeues events whose delay is over, of those that `which` selects. @returns their partitions */
const requeue = async ({ db, now }: Work, which: RawBuilder<unknown>): Promise<number[]> => {
  const { rows } = await sql<{ part: number }>`
    with due as (
      delete from event_due t using (
        select project_id, event_id from event_due
        where ${which} and due_at <= ${now.toISOString()}::timestamptz
        order by due_at limit ${SWEEP_MAX} for update skip locked) x
      where t.project_id = x.project_id and t.event_id = x.event_id
      returning t.project_id, t.event_id, t.part, t.attempts, t.together, t.due_at),
    told as (${TOLD})
    insert into event_q (project_id, part, event_id, attempts, together)
    select project_id, part, event_id, attempts, together from due order by due_at, event_id
    returning part`.execute(db);
  return rows.map(({ part }) => part);
};

/** Requeues events whose delay is over, across all projects. */
export const requeueDueEvents = async (work: Work): Promise<void> => {
  await requeue(work, sql`true`);
};

/** Selects the times to which rules have delayed events of a project; retries are due by the server's. */
export const delayedTimesOf = (projectId: string): RawBuilder<unknown> =>
  sql`select due_at from event_due where project_id = ${projectId}::uuid and attempts = 0`;

/** Requeues the events of a project that rules have delayed until now. @returns how many */
export const requeueDelayed = async (work: Work, projectId: string): Promise<number> => {
  const parts = await requeue(work, sql`project_id = ${projectId}::uuid and attempts = 0`);
  work.wakeEvents(parts);
  return parts.length;
};

/** Whether events of a project wait to be processed. */
export const areEventsWaiting = async ({ db }: Work, projectId: string): Promise<boolean> => {
  const { rows } = await sql`
    select from event_q where project_id = ${projectId}::uuid limit 1`.execute(db);
  return rows.length > 0;
};

/** `events`, `outbox`: partitions with waiting rows; `conditions`: in the order in which they were asked. */
export type WaitingWork = {
  events: number[];
  outbox: number[];
  areEventsDue: boolean;
  conditions: boolean[];
};

/**
 * Looks across all projects for waiting tracked events and outbox rows, for events whose delay is over, and
 * whether `conditions` hold, in one statement: it runs every second in every worker, and nearly always finds
 * nothing.
 */
export const lookForWork = async (
  read: Read,
  now: Date,
  conditions: readonly RawBuilder<unknown>[],
): Promise<WaitingWork> => {
  const partsOf = (table: string): RawBuilder<unknown> => sql`array(
    select part from generate_series(0, ${sql.lit(PARTITIONS - 1)}) as p(part)
    where exists (select from ${sql.ref(table)} q where q.part = p.part))`;
  const isDue = sql`exists (select from event_due where due_at <= ${now.toISOString()}::timestamptz)`;
  const statement = sql`select json_build_object(
      'events', ${partsOf("event_q")}, 'outbox', ${partsOf("outbox_q")}, 'areEventsDue', ${isDue},
      'conditions', json_build_array(${sql.join(conditions)})) as found`;
  const [row] = await read<{ found: WaitingWork }>(statementOf(statement));
  return row!.found;
};
