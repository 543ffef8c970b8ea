import { sql } from "kysely";
import type { Json } from "../events.ts";
import type { Work } from "../work.ts";
import { compileSchema, type Validate } from "./json-schema/schema.ts";

export const ENFORCEMENTS = ["OFF", "WARN", "REJECT"] as const;
export type Enforcement = (typeof ENFORCEMENTS)[number];

/** What the schema of an event's type says against the event. */
export type Mismatch = { enforcement: "WARN" | "REJECT"; failures: { field: string; message: string }[] };

/** The schemas of a project's event types that are enforced. */
export type EventSchemas = {
  /** Undefined when the type has no schema or the properties fit it. */
  check(eventType: string, properties: Json): Mismatch | undefined;
};

type Stored = { name: string; schema: unknown; enforcement: "WARN" | "REJECT" };

const PROPERTIES = "properties";

/** Schemas are compiled with the first event of their type. */
const schemasOf = (stored: readonly Stored[]): EventSchemas => {
  const byName = new Map(stored.map((one) => [one.name, one]));
  const compiled = new Map<string, Validate>();
  const validatorOf = ({ name, schema }: Stored): Validate => {
    const known = compiled.get(name);
    if (known) return known;
    const made = compileSchema(schema);
    // What was saved has been compiled once; a schema of another version of the server accepts everything.
    const validate = "validate" in made ? made.validate : () => [];
    compiled.set(name, validate);
    return validate;
  };
  return {
    check: (eventType, properties) => {
      const type = byName.get(eventType);
      if (!type) return undefined;
      const failures = validatorOf(type)(properties).map(({ path, message }) => ({
        field: path === "" ? PROPERTIES : `${PROPERTIES}.${path}`,
        message,
      }));
      return failures.length === 0 ? undefined : { enforcement: type.enforcement, failures };
    },
  };
};

/** A project with the sum of its schemas' versions, which rises with every change of one; null for none. */
export type SchemaStamp = { id: string; stamp: string | number | null };

/** Reads the schemas of those projects whose stamp has moved, and keeps them. */
export type SchemaCache = (
  work: Work,
  projects: readonly SchemaStamp[],
) => Promise<Map<string, EventSchemas>>;

/** Projects whose schemas are kept in a process. */
const PROJECTS_MAX = 1_000;

export const createSchemaCache = (): SchemaCache => {
  const known = new Map<string, { stamp: number; schemas: EventSchemas }>();
  return async (work, projects) => {
    const wanted = projects.flatMap(({ id, stamp }) =>
      stamp === null ? [] : [{ id, stamp: Number(stamp) }],
    );
    const moved = wanted.filter(({ id, stamp }) => known.get(id)?.stamp !== stamp);
    const read = moved.length === 0 ? undefined : await readSchemas(work, moved);
    for (const { id, stamp } of moved) {
      known.delete(id);
      known.set(id, { stamp, schemas: schemasOf(read!.get(id) ?? []) });
    }
    const found = new Map(wanted.map(({ id }) => [id, known.get(id)!.schemas]));
    while (known.size > PROJECTS_MAX) known.delete(known.keys().next().value!);
    return found;
  };
};

const readSchemas = async (
  { db }: Work,
  projects: readonly { id: string }[],
): Promise<Map<string, Stored[]>> => {
  const ids = `{${projects.map(({ id }) => id).join(",")}}`;
  const found = await sql<Stored & { project_id: string }>`
    select project_id, name, schema, enforcement from event_types
    where project_id = any(${ids}::uuid[]) and schema_version > 0
      and schema is not null and enforcement <> 'OFF'`.execute(db);
  return Map.groupBy(found.rows, ({ project_id }) => project_id);
};
