import { sql } from "kysely";
import { z } from "zod";
import { forgetProjects } from "../accounts/projects/project.ts";
import { createSizedCache } from "../kernel/caches.ts";
import { conflict, DomainError, invalid, notFound } from "../kernel/errors.ts";
import { isReservedType } from "../kernel/events/event-types.ts";
import type { Json } from "../kernel/events/events.ts";
import { Data } from "../kernel/events/shapes.ts";
import { isoOf } from "../kernel/iso-time.ts";
import { fitsBytes } from "../kernel/hostile-json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../kernel/paging.ts";
import { containing } from "../kernel/db.ts";
import { countRows, lockRoom, type Total, type Transact, type Work } from "../kernel/work.ts";
import { EVENT_TYPES_MAX, type PropertyShapes, SAMPLE_PLAYERS_MIN } from "./event-type-recorder.ts";
import { auditEvent } from "./events.ts";
import { type CheckTime, compileSchema, SCHEMA_MAX_BYTES, type Validate } from "./json-schema.ts";

export const ENFORCEMENTS = ["OFF", "WARN", "REJECT"] as const;
type Enforcement = (typeof ENFORCEMENTS)[number];

/** Violations of an event type's schema. */
export type Mismatch = { enforcement: "WARN" | "REJECT"; failures: { field: string; message: string }[] };

/** The enforced schemas of the event types of a request. */
export type EventSchemas = {
  /**
   * Returns undefined when the type has no schema or the properties match it.
   * @param time for all checks of a request
   */
  check(eventType: string, properties: Json, time?: CheckTime): Mismatch | undefined;
};

const PROPERTIES = "properties";

type Enforced = { enforcement: "WARN" | "REJECT"; validate: Validate };

/** A project with the sum of its schemas' versions, which rises with every change of one; null for none. */
export type SchemaProject = { id: string; tenantId: string; stamp: number | null };

/** Loads the schemas that events are checked against, by project. */
export type SchemaStore = (projects: Iterable<SchemaProject>) => Promise<Map<SchemaProject, EventSchemas>>;

/** Maximum memory of the schemas that a process keeps, and what one takes for each byte of its JSON. */
const KEPT_BYTES_MAX = 64 * 1024 * 1024;
const BYTES_PER_BYTE = 12;
const PROJECTS_MAX = 10_000;

type Kept = { stamp: number; schemas: EventSchemas };

/** @param bytesMax maximum memory of cached schemas */
export const createSchemaStore = (transact: Transact, bytesMax = KEPT_BYTES_MAX): SchemaStore => {
  const kept = createSizedCache<Kept>({ items: PROJECTS_MAX, bytes: bytesMax });

  const load = async ({ id, tenantId, stamp }: SchemaProject): Promise<EventSchemas> => {
    const known = kept.get(id);
    if (known?.stamp === stamp) return known.schemas;
    const rows = await readSchemas(transact, id);
    const bytes = 1_024 + rows.reduce((sum, row) => sum + BYTES_PER_BYTE * row.schema.length, 0);
    return kept.keep(id, { stamp: stamp!, schemas: schemasOf(rows) }, { owner: tenantId, bytes }).schemas;
  };

  return async (projects) => {
    const found = new Map<SchemaProject, EventSchemas>();
    for (const project of projects) if (project.stamp !== null) found.set(project, await load(project));
    return found;
  };
};

/** Schemas are prepared as events of their types come. */
const schemasOf = (rows: readonly StoredSchema[]): EventSchemas => {
  const stored = new Map(rows.map((row) => [row.name, row]));
  const ready = new Map<string, Enforced>();
  const prepare = (name: string): Enforced | undefined => {
    const row = stored.get(name);
    if (!row) return undefined;
    const made = compileSchema(JSON.parse(row.schema));
    // It was prepared when it was stored; one that only another version of the server takes accepts everything.
    const validate = "validate" in made ? made.validate : () => [];
    const prepared = { enforcement: row.enforcement, validate };
    ready.set(name, prepared);
    return prepared;
  };
  return {
    check: (eventType, properties, time) => {
      const type = ready.get(eventType) ?? prepare(eventType);
      if (!type) return undefined;
      const failures = type.validate(properties, time).map(({ path, message }) => ({
        field: path === "" ? PROPERTIES : `${PROPERTIES}.${path}`,
        message,
      }));
      return failures.length === 0 ? undefined : { enforcement: type.enforcement, failures };
    },
  };
};

type StoredSchema = { name: string; enforcement: "WARN" | "REJECT"; schema: string };

const readSchemas = (transact: Transact, projectId: string): Promise<StoredSchema[]> =>
  transact(async ({ db }) => {
    const { rows } = await sql<StoredSchema>`
      select name, enforcement, schema::text as schema from event_types
      where project_id = ${projectId} and schema_version > 0 and schema is not null
        and enforcement <> 'OFF'`.execute(db);
    return rows;
  });

/** Maximum event types of a project with a schema. */
export const SCHEMAS_MAX = 200;

/** An event type in the API. */
export const EventType = z
  .object({
    name: z.string().meta({ example: "order.paid" }),
    total: z.int().meta({ description: "Events of the type that were taken up, some seconds late" }),
    firstSeenAt: z.iso.datetime().nullable(),
    lastSeenAt: z.iso.datetime().nullable(),
    properties: z.array(
      z.object({
        path: z.string(),
        types: z.array(z.string()),
        samples: z.array(z.unknown()).meta({
          description: `Short values that at least ${SAMPLE_PLAYERS_MIN} players have sent`,
        }),
      }),
    ),
    schema: Data.nullable(),
    enforcement: z.enum(ENFORCEMENTS),
  })
  .meta({ id: "EventType" });
type EventType = z.output<typeof EventType>;

/** The columns of an event type, under the names of the API. */
const SHOWN = sql`name, total, first_seen_at as "firstSeenAt", last_seen_at as "lastSeenAt", properties, schema,
  enforcement`;

type Row = Omit<EventType, "firstSeenAt" | "lastSeenAt" | "properties"> & {
  firstSeenAt: Date | null;
  lastSeenAt: Date | null;
  properties: PropertyShapes;
};

const show = (row: Row): EventType => ({
  ...row,
  firstSeenAt: isoOf(row.firstSeenAt),
  lastSeenAt: isoOf(row.lastSeenAt),
  properties: Object.entries(row.properties)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, shape]) => ({ path, ...shape })),
});

/** Orders of the list. */
export const EVENT_TYPE_ORDERS = {
  by: { name: sql`name`, firstSeenAt: sql`first_seen_at`, lastSeenAt: sql`last_seen_at`, total: sql`total` },
  usual: "asc",
} as const;

type ListEventTypes = PageQuery &
  Ordered<SortOf<typeof EVENT_TYPE_ORDERS>> & {
    /** Case-insensitive part of the name. */
    search?: string | undefined;
    enforcement?: Enforcement | undefined;
  };

/** Returns those of some projects that have got an event. */
export const findProjectsWithEvents = async (
  { db }: Work,
  projectIds: readonly string[],
): Promise<ReadonlySet<string>> => {
  const { rows } = await sql<{ id: string }>`
    select p.id::text from json_array_elements_text(${JSON.stringify(projectIds)}::json) as given(id)
    cross join lateral (select given.id::uuid as id) p
    where exists (select 1 from event_types t where t.project_id = p.id and t.total > 0)`.execute(db);
  return new Set(rows.map(({ id }) => id));
};

/** Returns a page of a project's event types, by name. */
export const listEventTypes = async (
  work: Work,
  projectId: string,
  query: ListEventTypes,
): Promise<Total & { types: EventType[] }> => {
  const like = query.search === undefined ? null : containing(query.search);
  const rows = sql`event_types where project_id = ${projectId}
    and (${like}::text is null or name ilike ${like})
    and ${query.enforcement === undefined ? sql`true` : sql`enforcement = ${query.enforcement}`}`;
  const page = await sql<Row>`
    select ${SHOWN} from ${rows} order by ${orderBy(EVENT_TYPE_ORDERS, query, sql`name`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { types: page.rows.map(show), ...(await countRows(work, rows)) };
};

/** @throws DomainError NOT_FOUND for a type that was neither seen nor given a schema */
export const getEventType = async ({ db }: Work, projectId: string, name: string): Promise<EventType> => {
  const found = await sql<Row>`
    select ${SHOWN} from event_types where project_id = ${projectId} and name = ${name}`.execute(db);
  const [row] = found.rows;
  if (!row) throw notFound("event type");
  return show(row);
};

type EventTypeSchema = { schema: Json | null; enforcement: Enforcement };

/** @throws DomainError VALIDATION_ERROR */
const checkSchema = ({ schema, enforcement }: EventTypeSchema): void => {
  if (schema === null) {
    if (enforcement !== "OFF") throw invalid("schema", `is required to ${enforcement}`);
    return;
  }
  if (!fitsBytes(schema, SCHEMA_MAX_BYTES))
    throw invalid("schema", `must be at most ${SCHEMA_MAX_BYTES / 1024} KiB of JSON`);
  const compiled = compileSchema(schema);
  if ("validate" in compiled) return;
  const details = compiled.problems.map(({ path, message }) => ({
    field: path === "" ? "schema" : `schema.${path}`,
    message,
  }));
  const [first] = details;
  throw new DomainError("VALIDATION_ERROR", `${first!.field}: ${first!.message}`, { details });
};

/**
 * Sets or removes the schema of an event type's properties. Ingestion follows when its cache of schemas ends.
 * @throws DomainError VALIDATION_ERROR; CONFLICT: EVENT_TYPE_LIMIT, SCHEMA_LIMIT
 */
export const putEventSchema = async (
  work: Work,
  projectId: string,
  { name, ...given }: EventTypeSchema & { name: string },
): Promise<EventType> => {
  if (isReservedType(name)) throw invalid("name", "is one of the service's own events");
  checkSchema(given);
  await lockRoom(work, projectId, "event schemas");
  await checkRoom(work, projectId, name);
  const schema = given.schema === null ? null : JSON.stringify(given.schema);
  const put = await sql<Row>`
    insert into event_types as t (project_id, name, schema, enforcement, schema_version)
    values (${projectId}, ${name}, ${schema}::json, ${given.enforcement}, 1)
    on conflict (project_id, name) do update set schema = excluded.schema,
      enforcement = excluded.enforcement, schema_version = t.schema_version + 1
    returning ${SHOWN}`.execute(work.db);
  work.afterCommit(forgetProjects);
  const { enforcement } = given;
  await auditEvent(work, "event_type.schema_changed", { id: name, projectId, enforcement });
  return show(put.rows[0]!);
};

const checkRoom = async ({ db }: Work, projectId: string, name: string): Promise<void> => {
  const counted = await sql<{ types: number; schemas: number }>`
    select count(*) as types, count(*) filter (where schema is not null) as schemas from event_types
    where project_id = ${projectId} and name <> ${name}`.execute(db);
  const { types, schemas } = counted.rows[0]!;
  if (types >= EVENT_TYPES_MAX)
    throw conflict("EVENT_TYPE_LIMIT", `a project may have ${EVENT_TYPES_MAX} event types`);
  if (schemas >= SCHEMAS_MAX)
    throw conflict("SCHEMA_LIMIT", `${SCHEMAS_MAX} event types of a project may have a schema`);
};
