import { sql } from "kysely";
import { forgetProjects } from "../accounts/projects/project.ts";
import { createSizedCache } from "../kernel/caches.ts";
import { conflict, DomainError, invalid, notFound } from "../kernel/errors.ts";
import { isReservedType } from "../kernel/events/event-types.ts";
import type { Json } from "../kernel/events/events.ts";
import { fitsBytes } from "../kernel/oversize.ts";
import type { StepBudget } from "../kernel/pace.ts";
import { nextSlice } from "../kernel/slices.ts";
import { busy, Semaphore } from "../kernel/slots.ts";
import { offsetOf, type PageQuery } from "../kernel/paging.ts";
import { containing } from "../kernel/search.ts";
import { orderBy, type Ordered, type SortOf } from "../kernel/sorting.ts";
import { countRows, lockRoom, type Total, type Transact, type Work } from "../kernel/work.ts";
import { EVENT_TYPES_MAX, type PropertyShapes } from "./event-type-recorder.ts";
import { auditEvent } from "./events.ts";
import { compileSchema, SCHEMA_MAX_BYTES, type Validate } from "./json-schema/schema.ts";

export const ENFORCEMENTS = ["OFF", "WARN", "REJECT"] as const;
type Enforcement = (typeof ENFORCEMENTS)[number];

/** Violations of an event type's schema. */
export type Mismatch = { enforcement: "WARN" | "REJECT"; failures: { field: string; message: string }[] };

/** The enforced schemas of the event types of a request. */
export type EventSchemas = {
  /**
   * Returns undefined when the type has no schema or the properties match it.
   * @param shared step budget of all checks of a request
   */
  check(eventType: string, properties: Json, shared?: StepBudget): Mismatch | undefined;
};

const PROPERTIES = "properties";

/** A compiled schema. `version` rises with each change. */
type Compiled = { version: number; enforcement: "WARN" | "REJECT"; validate: Validate };

const schemasOf = (ready: ReadonlyMap<string, Compiled>): EventSchemas => ({
  check: (eventType, properties, shared) => {
    const type = ready.get(eventType);
    if (!type) return undefined;
    const failures = type.validate(properties, shared).map(({ path, message }) => ({
      field: path === "" ? PROPERTIES : `${PROPERTIES}.${path}`,
      message,
    }));
    return failures.length === 0 ? undefined : { enforcement: type.enforcement, failures };
  },
});

/** A project with the sum of its schemas' versions, which rises with every change of one; null for none. */
export type SchemaProject = { id: string; tenantId: string; stamp: number | null };

/**
 * Loads the compiled schemas that events of these types are checked against, by project. Schemas that are not
 * cached are read and compiled: one project at a time in a process, in slices, next that of the tenant with
 * the least consumption.
 */
export type SchemaStore = (
  wanted: ReadonlyMap<SchemaProject, ReadonlySet<string>>,
) => Promise<Map<SchemaProject, EventSchemas>>;

/** Maximum characters of the schemas, as JSON, that the events of one request are checked against. */
export const REQUEST_CHARACTERS_MAX = 2 * 1024 * 1024;
/** Maximum memory of compiled schemas in a process, in bytes. */
const KEPT_BYTES_MAX = 64 * 1024 * 1024;
/** Upper bound of a compiled schema's memory for each character of its JSON, and its fixed part. */
const BYTES_PER_CHARACTER = 36;
const SCHEMA_BYTES = 1_024;
/** Maximum memory of the schemas' metadata, in bytes. */
const HEADS_BYTES_MAX = 8 * 1024 * 1024;
const HEAD_BYTES = 256;
const PROJECTS_MAX = 10_000;

/** Metadata of an enforced schema, without the schema itself. */
type Head = { name: string; version: number; enforcement: "WARN" | "REJECT"; characters: number };
type Heads = { stamp: number; byName: ReadonlyMap<string, Head> };

const MANY: Validate = () => [
  {
    path: "",
    message:
      `cannot be checked: the schemas for this request's events hold more than ${REQUEST_CHARACTERS_MAX} ` +
      "characters together; send events of fewer types at once",
  },
];

/** @param bytesMax maximum memory of cached schemas */
export const createSchemaStore = (transact: Transact, bytesMax = KEPT_BYTES_MAX): SchemaStore => {
  const heads = createSizedCache<Heads>({ items: PROJECTS_MAX, bytes: HEADS_BYTES_MAX });
  const kept = createSizedCache<Compiled>({ items: Math.ceil(bytesMax / SCHEMA_BYTES), bytes: bytesMax });
  const compiling = new Semaphore({ slots: 1, waitingMax: Infinity, refusal: busy });

  const headsOf = async ({ id, tenantId, stamp }: SchemaProject): Promise<Heads["byName"]> => {
    const known = heads.get(id);
    if (known?.stamp === stamp) return known.byName;
    const byName = new Map((await readHeads(transact, id)).map((head) => [head.name, head]));
    const size = { owner: tenantId, bytes: HEAD_BYTES * (1 + byName.size) };
    heads.keep(id, { stamp: stamp!, byName }, size);
    return byName;
  };

  /** Copies the cached schemas to `ready`. @returns the others */
  const takeKept = ({ id }: SchemaProject, asked: readonly Head[], ready: Map<string, Compiled>): Head[] =>
    asked.filter(({ name, version }) => {
      const found = kept.get(keyOf(id, name));
      if (!found || found.version < version) return true;
      ready.set(name, found);
      return false;
    });

  const compile = ({ id, tenantId }: SchemaProject, asked: readonly Head[], ready: Map<string, Compiled>) =>
    compiling.run(async () => {
      // A request before this one may have loaded the same.
      const missing = takeKept({ id, tenantId, stamp: null }, asked, ready);
      for (const stored of missing.length === 0 ? [] : await readSchemas(transact, id, missing)) {
        const size = {
          owner: tenantId,
          bytes: SCHEMA_BYTES + BYTES_PER_CHARACTER * stored.characters,
        };
        ready.set(stored.name, kept.keep(keyOf(id, stored.name), readyOf(stored), size));
        await nextSlice();
      }
    });

  return async (wanted) => {
    const found = new Map<SchemaProject, EventSchemas>();
    let characters = 0;
    for (const [project, types] of wanted) {
      if (project.stamp === null) continue;
      const known = await headsOf(project);
      const ready = new Map<string, Compiled>();
      const asked: Head[] = [];
      for (const type of types) {
        const head = known.get(type);
        if (!head) continue;
        characters += head.characters;
        if (characters <= REQUEST_CHARACTERS_MAX) asked.push(head);
        else ready.set(type, { ...head, validate: MANY });
      }
      const missing = takeKept(project, asked, ready);
      if (missing.length > 0) await compile(project, missing, ready);
      if (ready.size > 0) found.set(project, schemasOf(ready));
    }
    return found;
  };
};

const keyOf = (projectId: string, name: string): string => `${projectId} ${name}`;

type StoredSchema = Head & { schema: unknown };

const readyOf = ({ version, enforcement, schema }: StoredSchema): Compiled => {
  const made = compileSchema(schema);
  // A stored schema has been compiled once; one of another server version that fails to compile accepts
  // everything.
  return { version, enforcement, validate: "validate" in made ? made.validate : () => [] };
};

const HEAD = sql`name, schema_version as version, enforcement, octet_length(schema::text) as characters`;
const ENFORCED = sql`schema_version > 0 and schema is not null and enforcement <> 'OFF'`;

const readHeads = (transact: Transact, projectId: string): Promise<Head[]> =>
  transact(async ({ db }) => {
    const { rows } = await sql<Head>`
      select ${HEAD} from event_types where project_id = ${projectId} and ${ENFORCED}`.execute(db);
    return rows;
  });

const readSchemas = (
  transact: Transact,
  projectId: string,
  heads: readonly Head[],
): Promise<StoredSchema[]> =>
  transact(async ({ db }) => {
    const names = JSON.stringify(heads.map(({ name }) => name));
    const { rows } = await sql<StoredSchema>`
      select ${HEAD}, schema from event_types
      where project_id = ${projectId} and ${ENFORCED}
        and name = any(array(select json_array_elements_text(${names}::json)))`.execute(db);
    return rows;
  });

/** Maximum event types of a project with a schema. */
export const SCHEMAS_MAX = 200;

/** An event type in the API. */
type EventTypeView = {
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

type ListEventTypes = PageQuery &
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
