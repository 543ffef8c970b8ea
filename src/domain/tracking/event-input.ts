import { hash } from "node:crypto";
import { sql } from "kysely";
import type { CheckTime } from "./json-schema.ts";
import { z } from "zod";
import { DomainError, invalidField, numbered } from "../kernel/errors.ts";
import { isReservedType } from "../kernel/events/event-types.ts";
import type { Json } from "../kernel/events/events.ts";
import { isLongJson, refuseHostile } from "../kernel/hostile-json.ts";
import { newId, partitionOf } from "../kernel/ids.ts";
import { ignoredFields, ignoredWarnings, isJsonObject } from "../kernel/json.ts";
import { EXTERNAL_ID_MAX, FUTURE_LIMIT_MS } from "../kernel/limits.ts";
import { kept } from "../kernel/statements.ts";
import { monthOf, type Transact, type Work } from "../kernel/work.ts";
import { problemsOf } from "../kernel/zod-problems.ts";
import { createSchemaStore, type EventSchemas, type Mismatch, type SchemaProject } from "./event-schemas.ts";
import type { Caller } from "../kernel/caller.ts";
import { projectChanges } from "../accounts/projects/project.ts";
import { createSizedCache } from "../kernel/caches.ts";

type Rules = SchemaProject & { maxEventAgeDays: number | null };

/** Cache lifetime in ms: changes of settings by another process reach ingestion within it. */
const CACHE_MS = 5_000;
const CACHE_MAX = 10_000;
/** Estimated memory of the rules of one project, and the maximum of all cached rules. */
const RULES_BYTES = 512;
const CACHE_MAX_BYTES = 16 * 1024 * 1024;

/** An event as sent, unchecked. */
type Sent = { projectId?: unknown };

/** @param inputs the events of the request, whose schemas are loaded */
export type ProjectRules = (
  caller: Caller,
  projectId: string,
  inputs: readonly unknown[],
) => Promise<Pick<ReadContext, "resolve">>;

/**
 * Creates the look-up of the projects that a caller's events may name, and the rules for their events. Events
 * sent with an API key belong to the key's project and may repeat its id (for a test key, that of the
 * sandbox); a console user may name any project of the tenant, and defaults to the project of the request.
 */
export const createProjectRules = (transact: Transact, clock: () => Date): ProjectRules => {
  const schemas = createSchemaStore(transact);
  type Cached = { until: number; changes: number; rules: Rules[] };
  const cache = createSizedCache<Cached>({ items: CACHE_MAX, bytes: CACHE_MAX_BYTES });
  const cached = async (column: "id" | "tenant_id", value: string): Promise<Rules[]> => {
    const now = clock().getTime();
    const changes = projectChanges();
    const known = cache.get(value);
    if (known && known.until > now && known.changes === changes) return known.rules;
    const rules = await readRules(transact, column, value);
    const size = { owner: value, bytes: RULES_BYTES * (1 + rules.length) };
    return cache.keep(value, { until: now + CACHE_MS, changes, rules }, size).rules;
  };

  return async (caller, projectId, inputs) => {
    if (caller.kind !== "user" && caller.kind !== "key") return { resolve: () => undefined };
    const find = await finder(caller, projectId, cached);
    const ready = await schemas(projectsIn(inputs, find));
    return {
      resolve: (named) => {
        const rules = find(named);
        const own = rules && ready.get(rules);
        return own ? { ...rules, schemas: own } : rules;
      },
    };
  };
};

/** Returns the rules of the project that an event names; undefined for one out of reach. */
type Find = (named: string | undefined) => Rules | undefined;

/** The rules of the projects that events name. */
const projectsIn = (inputs: readonly unknown[], find: Find): Set<Rules> => {
  const named = inputs.map((input) => ((input ?? {}) as Sent).projectId);
  const found = named.map((id) => (id === undefined || typeof id === "string" ? find(id) : undefined));
  return new Set(found.filter((rules) => rules !== undefined));
};

const finder = async (
  caller: Extract<Caller, { kind: "key" | "user" }>,
  projectId: string,
  cached: (column: "id" | "tenant_id", value: string) => Promise<Rules[]>,
): Promise<Find> => {
  if (caller.kind === "key") {
    const [own] = await cached("id", caller.projectId);
    const names = new Set([undefined, caller.projectId, caller.ownerProjectId]);
    return (named) => (names.has(named?.toLowerCase()) ? own : undefined);
  }
  const all = await cached("tenant_id", caller.tenantId);
  const byId = new Map(all.map((rules) => [rules.id, rules]));
  return (named) => byId.get(named?.toLowerCase() ?? projectId);
};

const readRules = (transact: Transact, column: "id" | "tenant_id", value: string): Promise<Rules[]> =>
  transact(async ({ db }) => {
    const { rows } = await sql<Rules>`
      select id, tenant_id as "tenantId", (settings->>'maxEventAgeDays')::int as "maxEventAgeDays",
        (select sum(schema_version) from event_types t
          where t.project_id = projects.id and t.schema_version > 0) as stamp
      from projects
      where ${sql.ref(column)} = ${value}::uuid and deleted_at is null`.execute(db);
    return rows;
  });

/** Maximum events of one batch request. */
export const BATCH_MAX_EVENTS = 1_000;

/** Maximum bytes of a batch request's body. */
export const BATCH_MAX_BYTES = 5 * 1024 * 1024;

/** Maximum bytes of one event's `properties` as JSON. */
export const PROPERTIES_MAX_BYTES = 16 * 1024;

/** Maximum characters of an event's `idempotencyKey`. */
export const IDEMPOTENCY_KEY_MAX = 255;

/**
 * Earliest timestamp that is unambiguous: PostgreSQL writes the year 50 in a form that Date reads as 1950.
 */
const OLDEST_MS = Date.UTC(1000, 0, 1);

const text = (max: number) => z.string().min(1).max(max);

/**
 * An event as sent by integrators; `properties` and hostile values are checked separately, see `readEvent`.
 */
export const EventInput = z.object({
  projectId: z.uuid().optional().meta({ description: "Required only when the credentials name no project" }),
  externalUserId: text(EXTERNAL_ID_MAX),
  eventType: text(100).regex(
    /^[A-Za-z0-9_][A-Za-z0-9_.:-]*$/,
    "may contain letters, digits and _ . : - and must not start with a punctuation mark",
  ),
  // Not z.record: it copies every property, and their values are checked by refuseHostile.
  properties: z
    .custom<Json>(isJsonObject, "must be an object")
    .meta({ override: { type: "object", additionalProperties: {} } })
    .default({}),
  timestamp: z.iso.datetime({ offset: true }).optional(),
  idempotencyKey: text(IDEMPOTENCY_KEY_MAX).optional(),
});

export type EventInput = z.infer<typeof EventInput>;

/** An event to be stored. Names are short because one JSON parameter carries thousands of these. */
export type NewEvent = {
  id: string;
  /** project id */
  p: string;
  /** external user id */
  u: string;
  /** event type */
  t: string;
  /** properties, as JSON text with sorted keys */
  d: string;
  /** timestamp, in ms since 1970 */
  ts: number;
  /** received at, in ms since 1970 */
  at: number;
  /** idempotency key */
  k: string | null;
  /** hash of the sender's content, 32 hexadecimal digits; null without a key */
  x: string | null;
  /** queue partition */
  h: number;
  /** warnings, by the type's schema and about unknown fields; reported, not stored */
  w?: readonly string[];
};

/** Returns the ids of the projects that events belong to, each once. */
export const projectsOf = (events: readonly NewEvent[]): string[] => [...new Set(events.map(({ p }) => p))];

/** Returns the partitions of the queue that events go to. */
export const partsOf = (events: readonly NewEvent[]): Set<number> => new Set(events.map(({ h }) => h));

/**
 * The context in which an event is checked. `resolve` returns undefined for a project that the caller cannot
 * reach.
 */
type ReadContext = {
  now: Date;
  /** The time for the schema checks of all events of a request. */
  checks?: CheckTime;
  resolve(
    projectId: string | undefined,
  ): { id: string; maxEventAgeDays: number | null; schemas?: EventSchemas } | undefined;
};

/** Parses and checks one event. @throws DomainError VALIDATION_ERROR whose message names the field */
export const readEvent = (input: unknown, { now, resolve, checks }: ReadContext): NewEvent => {
  rejectOversized(input);
  // Before the zod schema, which would silently drop a `__proto__` key.
  refuseHostile("", input);
  const parsed = EventInput.safeParse(input);
  if (!parsed.success) throw fromZod(parsed.error, input);
  const event = parsed.data;
  const { externalUserId, eventType, properties, idempotencyKey } = event;
  const json = JSON.stringify(inKeyOrder(properties));
  if (Buffer.byteLength(json) > PROPERTIES_MAX_BYTES) throw tooLong();
  if (isReservedType(eventType))
    throw invalidField("eventType", `eventType ${eventType} is reserved for the service's own events`);

  const project = resolve(event.projectId) ?? outOfReach(event.projectId);
  const atMs = event.timestamp === undefined ? now.getTime() : Date.parse(event.timestamp);
  checkTime(atMs, now, project.maxEventAgeDays);
  const key = idempotencyKey ?? null;
  const payload = () => [
    JSON.stringify(externalUserId),
    JSON.stringify(eventType),
    json,
    event.timestamp === undefined ? "null" : String(atMs),
  ];
  const read: NewEvent = {
    id: newId(),
    p: project.id,
    u: externalUserId,
    t: eventType,
    d: json,
    ts: atMs,
    at: now.getTime(),
    k: key,
    x: key === null ? null : payloadHash(payload()),
    h: partitionOf(project.id, externalUserId),
  };
  const mismatch = project.schemas?.check(eventType, properties, checks);
  const checked = mismatch ? applyMismatch(read, mismatch) : read;
  return withIgnored(checked, ignoredFields(input, FIELDS));
};

const FIELDS: ReadonlySet<string> = new Set(Object.keys(EventInput.shape));

/** Adds a warning about fields of the input that no event has. */
export const withIgnored = (event: NewEvent, names: readonly string[]): NewEvent =>
  names.length === 0 ? event : { ...event, w: [...ignoredWarnings(names, "an event"), ...(event.w ?? [])] };

const tooLong = (): DomainError => invalidField("properties", "properties must be at most 16 KiB of JSON");

/** Rejects `properties` of megabytes before anything walks, sorts or copies them. */
const rejectOversized = (input: unknown): void => {
  const properties = isJsonObject(input) ? input["properties"] : undefined;
  if (isJsonObject(properties) && isLongJson(properties, PROPERTIES_MAX_BYTES + 1)) throw tooLong();
};

const outOfReach = (projectId: string | undefined): never => {
  throw projectId === undefined
    ? invalidField("projectId", "projectId is required: these credentials name no project")
    : invalidField("projectId", "projectId is not a project of these credentials");
};

/** Applies the result of the schema check: rejects the event or attaches warnings. */
const applyMismatch = (event: NewEvent, mismatch: Mismatch): NewEvent => {
  if (mismatch.enforcement === "REJECT") throw rejected(mismatch);
  return { ...event, w: textsOf(mismatch) };
};

const textsOf = ({ failures }: Mismatch): string[] =>
  failures.map(({ field, message }) => `${field} ${message}`);

const rejected = (mismatch: Mismatch): DomainError =>
  new DomainError("VALIDATION_ERROR", textsOf(mismatch).join("; "), {
    details: mismatch.failures,
    reason: "SCHEMA_MISMATCH",
  });

const fromZod = (error: z.ZodError, input: unknown): DomainError => {
  if (input === null || typeof input !== "object" || Array.isArray(input))
    return invalidField("event", "an event must be a JSON object");
  const details = problemsOf(error, "");
  const problems = details.map(({ field, message }) => `${field} ${message}`);
  // Often the misspelt names of those that are missing.
  const unknown = ignoredWarnings(ignoredFields(input, FIELDS), "an event");
  return new DomainError("VALIDATION_ERROR", [...problems, ...unknown].join("; "), { details });
};

/** Rejects invalid timestamps. @throws DomainError VALIDATION_ERROR */
export const checkTime = (atMs: number, now: Date, maxEventAgeDays: number | null): void => {
  if (!Number.isFinite(atMs) || atMs < OLDEST_MS)
    throw invalidField("timestamp", "timestamp must be in year 1000 or later");
  if (atMs > now.getTime() + FUTURE_LIMIT_MS)
    throw invalidField("timestamp", "timestamp is more than 24 hours ahead of the server's clock");
  if (maxEventAgeDays !== null && atMs < now.getTime() - maxEventAgeDays * 86_400_000) {
    throw invalidField(
      "timestamp",
      `timestamp is older than the ${numbered(maxEventAgeDays, "day")} this project accepts`,
    );
  }
};

const isSorted = (keys: readonly string[]): boolean => keys.every((key, i) => i === 0 || keys[i - 1]! < key);

/** Sorts the keys of every level, so that equal content has equal JSON. */
const inKeyOrder = (value: unknown): unknown => {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(inKeyOrder);
  const keys = Object.keys(value);
  if (!isSorted(keys)) keys.sort();
  const ordered: Json = {};
  for (const key of keys) ordered[key] = inKeyOrder((value as Json)[key]);
  return ordered;
};

/** First 128 bits of SHA-256 in hexadecimal, which PostgreSQL accepts as a UUID of 16 bytes. */
const payloadHash = (content: readonly string[]): string =>
  hash("sha256", `[${content.join()}]`, "hex").slice(0, 32);

/** Result of storing one event. */
export type Ingested =
  | { kind: "stored"; eventId: string }
  | { kind: "duplicate"; existingEventId: string; isSameBody: boolean; isReverted: boolean };

/** Default rows per statement; a single-connection engine, which blocks the process meanwhile, uses fewer. */
const ALL_ROWS = Number.MAX_SAFE_INTEGER;

/** A project `p` whose events are counted for the tenant `t`, up to a sum of `m` of all its projects. */
export type Payer = { p: string; t: string; m: number | null };

/** Where events are counted: in the rows of `slot`. */
type Counting = {
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
