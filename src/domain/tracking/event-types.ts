import { sql } from "kysely";
import { countRows, type Total } from "../kernel/counting.ts";
import { conflict, DomainError, invalid, notFound } from "../kernel/errors.ts";
import type { Json } from "../kernel/events/events.ts";
import { isReservedType } from "../kernel/events/event-types.ts";
import { fitsBytes } from "../kernel/oversize.ts";
import { offsetOf, type PageQuery } from "../kernel/paging.ts";
import { orderBy, type Ordered, type SortOf } from "../kernel/sorting.ts";
import { forgetProjects } from "../accounts/projects/resolve.ts";
import { lockRoom } from "../kernel/room-lock.ts";
import { containing } from "../kernel/search.ts";
import type { Work } from "../kernel/work.ts";
import { auditEvent } from "./audit-event.ts";
import type { Enforcement } from "./event-schemas.ts";
import { EVENT_TYPES_MAX } from "./event-type-recorder.ts";
import { compileSchema, SCHEMA_MAX_BYTES } from "./json-schema/schema.ts";
import type { PropertyShapes } from "./property-shapes.ts";

/** Maximum event types of a project with a schema. */
export const SCHEMAS_MAX = 200;

/** An event type in the API. */
export type EventTypeView = {
  name: string;
  total: number;
  firstSeenAt: string | null;
  lastSeenAt: string | null;
  properties: { path: string; types: string[]; samples: unknown[] }[];
  schema: Json | null;
  enforcement: Enforcement;
};

type Row = {
  name: string;
  total: string | number;
  first_seen_at: Date | string | null;
  last_seen_at: Date | string | null;
  properties: PropertyShapes;
  schema: Json | null;
  enforcement: Enforcement;
};

const isoOf = (value: Date | string | null): string | null =>
  value === null ? null : new Date(value).toISOString();

const show = (row: Row): EventTypeView => ({
  name: row.name,
  total: Number(row.total),
  firstSeenAt: isoOf(row.first_seen_at),
  lastSeenAt: isoOf(row.last_seen_at),
  properties: Object.entries(row.properties)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([path, shape]) => ({ path, ...shape })),
  schema: row.schema,
  enforcement: row.enforcement,
});

/** Orders of the list. */
export const EVENT_TYPE_ORDERS = {
  by: { name: sql`name`, firstSeenAt: sql`first_seen_at`, lastSeenAt: sql`last_seen_at`, total: sql`total` },
  usual: "asc",
} as const;

export type ListEventTypes = PageQuery &
  Ordered<SortOf<typeof EVENT_TYPE_ORDERS>> & {
    /** Case-insensitive part of the name. */
    search?: string | undefined;
    enforcement?: Enforcement | undefined;
  };

/** Returns a page of a project's event types, by name. */
export const listEventTypes = async (
  work: Work,
  projectId: string,
  query: ListEventTypes,
): Promise<Total & { types: EventTypeView[] }> => {
  const like = query.search === undefined ? null : containing(query.search);
  const rows = sql`event_types where project_id = ${projectId}
    and (${like}::text is null or name ilike ${like})
    and ${query.enforcement === undefined ? sql`true` : sql`enforcement = ${query.enforcement}`}`;
  const page = await sql<Row>`
    select * from ${rows} order by ${orderBy(EVENT_TYPE_ORDERS, query, sql`name`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  return { types: page.rows.map(show), ...(await countRows(work, rows)) };
};

/** @throws DomainError NOT_FOUND for a type that was neither seen nor given a schema */
export const getEventType = async ({ db }: Work, projectId: string, name: string): Promise<EventTypeView> => {
  const found = await sql<Row>`
    select * from event_types where project_id = ${projectId} and name = ${name}`.execute(db);
  const [row] = found.rows;
  if (!row) throw notFound("event type");
  return show(row);
};

export type EventTypeSchema = { schema: Json | null; enforcement: Enforcement };

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
): Promise<EventTypeView> => {
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
    returning *`.execute(work.db);
  work.afterCommit(forgetProjects);
  const { enforcement } = given;
  await auditEvent(work, "event_type.schema_changed", { id: name, projectId, enforcement });
  return show(put.rows[0]!);
};

const checkRoom = async ({ db }: Work, projectId: string, name: string): Promise<void> => {
  const counted = await sql<{ types: string | number; schemas: string | number }>`
    select count(*) as types, count(*) filter (where schema is not null) as schemas from event_types
    where project_id = ${projectId} and name <> ${name}`.execute(db);
  const { types, schemas } = counted.rows[0]!;
  if (Number(types) >= EVENT_TYPES_MAX)
    throw conflict("EVENT_TYPE_LIMIT", `a project may have ${EVENT_TYPES_MAX} event types`);
  if (Number(schemas) >= SCHEMAS_MAX)
    throw conflict("SCHEMA_LIMIT", `${SCHEMAS_MAX} event types of a project may have a schema`);
};
