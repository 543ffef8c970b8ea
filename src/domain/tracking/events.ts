import { type RawBuilder, sql } from "kysely";
import { z } from "zod";
import { audit } from "../accounts/audit/audit.ts";
import { SCHEDULE_TYPE } from "../evaluation/language/patterns.ts";
import { type Effect as Published, published } from "../evaluation/trace/trace.ts";
import { conflict, notFound } from "../kernel/errors.ts";
import type { Json } from "../kernel/events/events.ts";
import { Data } from "../kernel/events/shapes.ts";
import { insertWarehouseChanges } from "../kernel/events/warehouse-changes.ts";
import { idFloor, isId, partitionOf } from "../kernel/ids.ts";
import { FUTURE_LIMIT_MS } from "../kernel/limits.ts";
import { OUTBOX_LINES, storedBytes } from "../kernel/outbox.ts";
import { type Direction, PAGE_BYTES_MAX } from "../kernel/paging.ts";
import type { Work } from "../kernel/work.ts";
import { getPlayer } from "../progression/players/players.ts";

/** Records an action on an event or event type in the audit log of the tenant. */
export const auditEvent = async (
  work: Work,
  action: string,
  { id, ...data }: Json & { id: string; projectId: string },
): Promise<void> => {
  const caller = work.by?.caller;
  if (caller?.kind !== "user" && caller?.kind !== "key") return;
  const target = { type: action.split(".", 1)[0]!, id };
  await audit(work, { action, target, tenantId: caller.tenantId, data });
};

export const EVENT_STATUSES = ["PENDING", "PROCESSED", "FAILED", "REJECTED", "REVERTED"] as const;
export type EventStatus = (typeof EVENT_STATUSES)[number];
/** The origin of an event: an integrator, a scheduled rule, or a rule's target or delay. */
export const EVENT_SOURCES = ["API", "SCHEDULE", "SYSTEM"] as const;
type EventSource = (typeof EVENT_SOURCES)[number];
export type Effect = Published<Json>;
export const Effect: z.ZodType<Effect> = z.object({ type: z.string(), data: Data, cause: Data }) as never;
/** Maximum bytes of effects read at once: parsed, they may take twenty times as much memory. */
export const EFFECTS_BYTES_MAX = 1024 * 1024;

/** A tracked event with its status. */
export const TrackedEvent = z
  .object({
    id: z.uuid(),
    projectId: z.uuid(),
    externalUserId: z.string(),
    playerId: z.uuid().nullable().meta({
      description: "The player who has it now, after a merge the other one; null before there is one",
    }),
    displayName: z.string().nullable(),
    eventType: z.string(),
    properties: Data,
    timestamp: z.iso.datetime(),
    receivedAt: z.iso.datetime(),
    idempotencyKey: z.string().nullable(),
    source: z
      .enum(EVENT_SOURCES)
      .meta({ description: "Who made it: API an integrator, the others the service for a rule" }),
    status: z.enum(EVENT_STATUSES),
    error: z.string().nullable().meta({
      description:
        "Why it is REJECTED or FAILED. PROCESS_DIED at its beginning: each process that evaluated it ended",
    }),
  })
  .meta({ id: "Event" });
export type TrackedEvent = z.output<typeof TrackedEvent>;

export const ListedEvent = TrackedEvent.extend({
  effectCounts: z
    .record(z.string(), z.int())
    .optional()
    .meta({ description: "How many effects of each type it had; with include=effects" }),
}).meta({ id: "ListedEvent" });
export type ListedEvent = z.output<typeof ListedEvent>;

/** The first effects of an event. */
export const effectsShown = {
  effects: z.array(Effect),
  effectsLeftOut: z
    .int()
    .optional()
    .meta({ description: "How many more there are: an answer holds 1 MiB of effects" }),
};
type EffectsShown = z.output<z.ZodObject<typeof effectsShown>>;

export const EventWithEffects = TrackedEvent.extend(effectsShown).meta({ id: "EventWithEffects" });

/** Maximum number of types that a list of events is filtered by. */
export const EVENT_TYPES_ASKED_MAX = 20;

type ListEvents = {
  limit: number;
  /** By arrival: the newest first, unless `after` is given. */
  order?: Direction | undefined;
  /** Returns events that follow this one in the order. */
  cursor?: string | undefined;
  /** Returns events that arrived later than this one. */
  after?: string | undefined;
  /** Of any of these types. */
  eventType?: readonly string[] | undefined;
  externalUserId?: string | undefined;
  /** The event that was stored under this key: one at most. */
  idempotencyKey?: string | undefined;
  /** Events of a player by `{playerId}`, including those of players merged into it. */
  playerRef?: string | undefined;
  source?: EventSource | undefined;
  status?: EventStatus | undefined;
  /** Path of a property that has the value. */
  property?: string | undefined;
  value?: string | undefined;
  /** Id of a rule that fired for the event. */
  ruleId?: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
  withEffects?: boolean | undefined;
};

/** The columns of an event `e` with its player, under the names of the API. */
const SHOWN = sql`e.id, e.project_id as "projectId", e.external_user_id as "externalUserId",
  player_id as "playerId", display_name as "displayName", e.event_type as "eventType", e.properties,
  e.occurred_at as "timestamp", e.received_at as "receivedAt", e.idempotency_key as "idempotencyKey"`;

type ShownRow = Omit<TrackedEvent, "timestamp" | "receivedAt" | "source" | "status" | "error"> & {
  timestamp: Date;
  receivedAt: Date;
};
type Verdict = Pick<TrackedEvent, "status" | "error">;

const sourceOf = (eventType: string): EventSource => {
  if (eventType === SCHEDULE_TYPE) return "SCHEDULE";
  return eventType.startsWith("system.") ? "SYSTEM" : "API";
};

const SOURCE_FILTERS = {
  API: sql`e.event_type not like 'system.%'`,
  SCHEDULE: sql`e.event_type = ${SCHEDULE_TYPE}`,
  SYSTEM: sql`e.event_type like 'system.%' and e.event_type <> ${SCHEDULE_TYPE}`,
} satisfies Record<EventSource, RawBuilder<unknown>>;

const show = (row: ShownRow, { status, error }: Verdict): TrackedEvent => ({
  ...row,
  timestamp: row.timestamp.toISOString(),
  receivedAt: row.receivedAt.toISOString(),
  source: sourceOf(row.eventType),
  status,
  error,
});

const YEAR_1_MS = Date.parse("0001-01-01T00:00:00Z");
const YEAR_9999_MS = Date.parse("9999-12-31T23:59:59.999Z");

/** Converts a bound of a range for PostgreSQL, which supports fewer years and zone offsets than ISO 8601. */
export const boundOf = (text: string | undefined): string | null =>
  text === undefined
    ? null
    : new Date(Math.min(YEAR_9999_MS, Math.max(YEAR_1_MS, Date.parse(text)))).toISOString();

/** What `EVENT_STATUS` reads of an event `e`. */
export const STATUS_JOINS = sql`left join event_q q on q.project_id = e.project_id and q.event_id = e.id
  left join event_due w on w.project_id = e.project_id and w.event_id = e.id
  left join event_results r on r.project_id = e.project_id and r.event_id = e.id`;

/** PENDING while queued or waiting for a retry, FAILED or REJECTED by verdict, else PROCESSED. */
export const EVENT_STATUS = sql`case
  when q.event_id is not null or w.event_id is not null then 'PENDING'
  else coalesce(r.status, 'PROCESSED') end`;

const isOneOf = (column: RawBuilder<unknown>, texts: readonly string[]) =>
  sql`${column} in (select json_array_elements_text(${JSON.stringify(texts)}::json))`;

/** The player of an event `e`: the one that its player was merged into, if it was. */
const PLAYER_OF_EVENT = sql`left join lateral (
  select coalesce(m.id, p.id) as player_id, coalesce(m.display_name, p.display_name) as display_name
  from players p
  left join players m on m.project_id = p.project_id and m.id = p.merged_into
  where p.project_id = e.project_id and p.external_user_id = e.external_user_id and p.deleted_at is null
) of_player on true`;

/** Counts of the effects of an event `e`, by type. */
const EFFECT_COUNTS = sql`left join lateral (
  select coalesce(json_object_agg(type, n), '{}') as effect_counts from (
    select type, sum(coalesce(lines, 1))::int as n from outbox o
    where o.project_id = e.project_id and o.event_id = e.id group by type) by_type
) of_effects on true`;

/** Returns the external ids that a player's events were sent with. */
export const namesOf = async (work: Work, projectId: string, playerRef: string): Promise<string[]> => {
  const player = await getPlayer(work, projectId, playerRef);
  const merged = await sql<{ name: string }>`
    select external_user_id as name from players
    where project_id = ${projectId} and merged_into = ${player.id}`.execute(work.db);
  return [player.externalUserId, ...merged.rows.map(({ name }) => name)];
};

/** Looks up the event by its key: tracked events have no index of theirs. */
const hasKey = (projectId: string, key: string) =>
  sql`e.idempotency_key = ${key} and e.id = (select d.event_id from event_dedupe d
    where d.project_id = ${projectId} and d.idempotency_key = ${key})`;

/** Returns the scalars that a parameter may mean: 5 is a number, or a text. */
export const meantBy = (text: string): unknown[] => {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "boolean" || value === null || Number.isFinite(value) ? [text, value] : [text];
  } catch {
    return [text];
  }
};

const hasValue = (path: string, value: string) =>
  sql`e.properties #> string_to_array(${path}, '.') in (
    select jsonb_array_elements(${JSON.stringify(meantBy(value))}::jsonb))`;

const hasFired = (projectId: string, ruleId: string) =>
  sql`e.id in (select x.event_id from rule_executions x
    where x.project_id = ${projectId} and x.rule_id = ${ruleId}::uuid and x.mode = 'LIVE')`;

/** How much the clock that stamps ids may differ from the one that checks times, in ms. */
const CLOCKS_MS = 60_000;

/**
 * Older partitions need not be read: an event arrives at most FUTURE_LIMIT_MS before its time. Not so in a
 * sandbox, whose clock may have been ahead, and back since.
 */
const happenedSince = (projectId: string, from: string) =>
  sql`e.occurred_at >= ${from}::timestamptz and e.id >= (
    select case when sandbox_of is null then ${idFloor(Date.parse(from) - FUTURE_LIMIT_MS - CLOCKS_MS)}::uuid
      else ${idFloor(0)}::uuid end
    from projects where id = ${projectId})`;

type Of = { projectId: string; names: readonly string[] | undefined };

/** Builds the conditions of where in the list a page begins. */
const placeOf = (query: ListEvents): (RawBuilder<unknown> | false)[] => {
  const { cursor, after } = query;
  const beyond = sql.raw(directionOf(query) === "asc" ? ">" : "<");
  return [
    cursor !== undefined && sql`e.id ${beyond} ${cursor}::uuid`,
    after !== undefined && sql`e.id > ${after}::uuid`,
  ];
};

/** Builds the conditions about what an event says and has caused. */
const contentOf = ({ property, value, ruleId }: ListEvents, projectId: string) => [
  property !== undefined && hasValue(property, value!),
  ruleId !== undefined && hasFired(projectId, ruleId),
];

/** Builds the conditions of the filters that the query has. */
const filtersOf = (query: ListEvents, { projectId, names }: Of): RawBuilder<unknown>[] => {
  const { eventType, externalUserId, idempotencyKey, source, status } = query;
  const [from, to] = [boundOf(query.from), boundOf(query.to)];
  const filters = [
    sql`e.project_id = ${projectId}`,
    ...placeOf(query),
    eventType !== undefined && isOneOf(sql`e.event_type`, eventType),
    externalUserId !== undefined && sql`e.external_user_id = ${externalUserId}`,
    idempotencyKey !== undefined && hasKey(projectId, idempotencyKey),
    names !== undefined && isOneOf(sql`e.external_user_id`, names),
    source !== undefined && SOURCE_FILTERS[source],
    from !== null && happenedSince(projectId, from),
    to !== null && sql`e.occurred_at < ${to}::timestamptz`,
    status !== undefined && sql`${EVENT_STATUS} = ${status}`,
    ...contentOf(query, projectId),
  ];
  return filters.filter((one): one is RawBuilder<unknown> => one !== false);
};

const directionOf = ({ order, after }: ListEvents): Direction =>
  order ?? (after === undefined ? "desc" : "asc");

type Reading = {
  filters: readonly RawBuilder<unknown>[];
  direction: Direction;
  limit: number;
  /** How many are counted at most; default: one more than `limit`. */
  countMax?: number;
  /** Maximum bytes of properties; one event is always read. */
  bytesMax: number;
  withEffects?: boolean | undefined;
};

/**
 * Reads the first of the events that match, in the order of their arrival.
 * @returns `found`: how many match, counted up to `countMax`
 */
const readEvents = async (
  { db }: Work,
  { filters, direction, limit, countMax = limit + 1, bytesMax, withEffects = false }: Reading,
): Promise<{ events: ListedEvent[]; found: number }> => {
  const order = sql`id ${sql.raw(direction)}`;
  const { rows } = await sql<ShownRow & Verdict & { found: number } & Pick<ListedEvent, "effectCounts">>`
    with page as materialized (
      select e.*, ${EVENT_STATUS} as status, r.error, ${storedBytes("e.properties")} as bytes
      from tracked_events e ${STATUS_JOINS}
      where ${sql.join(filters, sql` and `)}
      order by e.${order} limit ${countMax}),
    summed as (select *, sum(bytes) over (order by ${order}) as upto, count(*) over () as found from page)
    select ${SHOWN}, e.status, e.error, found ${withEffects ? sql`, effect_counts as "effectCounts"` : sql``}
    from summed e ${PLAYER_OF_EVENT} ${withEffects ? EFFECT_COUNTS : sql``}
    where upto <= ${bytesMax} or upto = bytes order by e.${order} limit ${limit}`.execute(db);
  const events = rows.map(({ found: _found, effectCounts, ...row }) => ({
    ...show(row, row),
    ...(effectCounts && { effectCounts }),
  }));
  return { events, found: rows[0]?.found ?? 0 };
};

/**
 * Returns a page of a project's events by arrival, and whether there are more: as many as requested, or as
 * fit into PAGE_BYTES_MAX.
 * @throws DomainError NOT_FOUND for an unknown player
 */
export const listEvents = async (
  work: Work,
  projectId: string,
  query: ListEvents,
): Promise<{ events: ListedEvent[]; nextCursor: string | null }> => {
  const names = query.playerRef === undefined ? undefined : await namesOf(work, projectId, query.playerRef);
  const { limit, withEffects } = query;
  const { events, found } = await readEvents(work, {
    filters: filtersOf(query, { projectId, names }),
    direction: directionOf(query),
    limit,
    bytesMax: PAGE_BYTES_MAX,
    withEffects,
  });
  return { events, nextCursor: found > events.length ? events.at(-1)!.id : null };
};

type Handled = {
  ids: readonly string[];
  /** Any but PENDING where it is undefined. */
  status: EventStatus | undefined;
  limit: number;
  bytesMax: number;
};

/** Returns the newest of these events whose status is decided, newest first; `found`: how many they are. */
export const readHandled = async (
  work: Work,
  projectId: string,
  { ids, status, ...limits }: Handled,
): Promise<{ events: ListedEvent[]; found: number }> => {
  const filters = [
    sql`e.project_id = ${projectId}`,
    sql`e.id = any(${`{${ids.join(",")}}`}::uuid[])`,
    status === undefined ? sql`${EVENT_STATUS} <> 'PENDING'` : sql`${EVENT_STATUS} = ${status}`,
  ];
  return readEvents(work, {
    filters,
    direction: "desc",
    countMax: ids.length,
    withEffects: true,
    ...limits,
  });
};

/** Returns one event with its effects. @throws DomainError NOT_FOUND */
export const getEvent = async (
  work: Work,
  projectId: string,
  eventId: string,
): Promise<z.output<typeof EventWithEffects>> => {
  const [found] = isId(eventId) ? await readStatuses(work, projectId, [eventId]) : [];
  if (!found) throw notFound("event");
  const { rows } = await sql<ShownRow>`
    select ${SHOWN} from tracked_events e ${PLAYER_OF_EVENT}
    where e.project_id = ${projectId} and e.id = ${eventId}`.execute(work.db);
  const { status, error, eventId: _id, ...effects } = found;
  return { ...show(rows[0]!, { status, error }), ...effects };
};

export type StatusOfEvent = { eventId: string; status: EventStatus; error: string | null } & EffectsShown;

/** Reads the statuses of events alone, by id; unknown ids are left out. */
export const readPlainStatuses = async (
  { db }: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<Map<string, EventStatus>> => {
  const { rows } = await sql<{ id: string; status: EventStatus }>`
    select e.id, ${EVENT_STATUS} as status from tracked_events e ${STATUS_JOINS}
    where e.project_id = ${projectId} and e.id = any(${`{${eventIds.join(",")}}`}::uuid[])`.execute(db);
  return new Map(rows.map(({ id, status }) => [id, status]));
};

type StatusRow = {
  id: string;
  status: EventStatus;
  error: string | null;
  effects: { type: string; data: Json }[] | null;
  left_out: number | null;
};

/**
 * Reads status and effects of events, for `?wait=true`. Unknown ids are left out, and so are effects beyond
 * EFFECTS_BYTES_MAX: events with fewer bytes come first.
 */
export const readStatuses = async (
  { db }: Work,
  projectId: string,
  eventIds: readonly string[],
): Promise<StatusOfEvent[]> => {
  const ids = `{${eventIds.join(",")}}`;
  const result = await sql<StatusRow>`
    with sized as (
      select event_id, type, data, player_seq, id, coalesce(bytes, octet_length(data::text)) as size
      from ${OUTBOX_LINES} o where project_id = ${projectId} and event_id = any(${ids}::uuid[])),
    own as (
      select *, sum(size) over (partition by event_id order by player_seq, id) as own from sized),
    summed as (select *, sum(size) over (order by own, id) as upto from own),
    o as (
      select event_id, count(*) filter (where upto > ${EFFECTS_BYTES_MAX}) as left_out,
        jsonb_agg(jsonb_build_object('type', type, 'data', data) order by player_seq, id)
          filter (where upto <= ${EFFECTS_BYTES_MAX}) as effects
      from summed group by event_id)
    select e.id, r.error, ${EVENT_STATUS} as status, o.effects, o.left_out
    from tracked_events e ${STATUS_JOINS}
    left join o on o.event_id = e.id
    where e.project_id = ${projectId} and e.id = any(${ids}::uuid[])`.execute(db);
  return result.rows.map(({ id, status, error, effects, left_out }) => ({
    eventId: id,
    status,
    error,
    effects: (effects ?? []).map(published(id)),
    ...(left_out ? { effectsLeftOut: left_out } : {}),
  }));
};

/**
 * Requeues a failed event with all its attempts. Of two concurrent requests, one succeeds.
 * @throws DomainError NOT_FOUND; CONFLICT INVALID_STATE for an event that is not FAILED
 */
export const retryEvent = async (work: Work, projectId: string, eventId: string): Promise<void> => {
  const [found] = isId(eventId) ? await readStatuses(work, projectId, [eventId]) : [];
  if (!found) throw notFound("event");
  const freed = await sql<{ external_user_id: string }>`
    with r as (
      delete from event_results
      where project_id = ${projectId} and event_id = ${eventId} and status = 'FAILED' returning event_id),
    c as (${insertWarehouseChanges(projectId, "CHANGED", sql`select event_id as ref from r`)})
    select e.external_user_id from r
    join tracked_events e on e.project_id = ${projectId} and e.id = r.event_id`.execute(work.db);
  const [event] = freed.rows;
  if (!event)
    throw conflict("INVALID_STATE", `the event is ${found.status}; only a FAILED event can be retried`);
  const part = partitionOf(projectId, event.external_user_id);
  await sql`
    insert into event_q (project_id, part, event_id)
    values (${projectId}, ${part}::smallint, ${eventId})`.execute(work.db);
  work.wakeEvents([part]);
  await auditEvent(work, "event.retried", { id: eventId, projectId });
};
