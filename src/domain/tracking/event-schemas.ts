import { sql } from "kysely";
import type { Json } from "../events.ts";
import type { StepBudget } from "../step-budget.ts";
import { createSizedCache } from "../sized-cache.ts";
import type { Work } from "../work.ts";
import { compileSchema, type Validate } from "./json-schema/schema.ts";

export const ENFORCEMENTS = ["OFF", "WARN", "REJECT"] as const;
export type Enforcement = (typeof ENFORCEMENTS)[number];

/** What the schema of an event's type says against the event. */
export type Mismatch = { enforcement: "WARN" | "REJECT"; failures: { field: string; message: string }[] };

/** The schemas of a project's event types that are enforced. */
export type EventSchemas = {
  /**
   * Undefined when the type has no schema or the properties fit it.
   * @param shared what all checks of a request may take together
   */
  check(eventType: string, properties: Json, shared?: StepBudget): Mismatch | undefined;
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
    check: (eventType, properties, shared) => {
      const type = byName.get(eventType);
      if (!type) return undefined;
      const failures = validatorOf(type)(properties, shared).map(({ path, message }) => ({
        field: path === "" ? PROPERTIES : `${PROPERTIES}.${path}`,
        message,
      }));
      return failures.length === 0 ? undefined : { enforcement: type.enforcement, failures };
    },
  };
};

/** A project with the sum of its schemas' versions, which rises with every change of one; null for none. */
export type SchemaStamp = { id: string; tenant: string; stamp: string | number | null };

/** Reads the schemas of those projects whose stamp has moved, and keeps them. */
export type SchemaCache = (
  work: Work,
  projects: readonly SchemaStamp[],
) => Promise<Map<string, EventSchemas>>;

/**
 * Characters of the schemas that are kept in a process, as JSON, with PROJECT_CHARACTERS for each project.
 * What is compiled of them takes about twenty bytes for each.
 */
const KEPT_CHARACTERS_MAX = 8 * 1024 * 1024;
const PROJECT_CHARACTERS = 1_024;

type Known = { stamp: number; schemas: EventSchemas; characters: number };

const knownOf = (stamp: number, stored: readonly Stored[]): Known => {
  const lengths = stored.map(({ schema }) => JSON.stringify(schema).length);
  return {
    stamp,
    schemas: schemasOf(stored),
    characters: lengths.reduce((sum, length) => sum + length, PROJECT_CHARACTERS),
  };
};

/** @param charactersMax what is kept between calls: those that were asked for last */
export const createSchemaCache = (charactersMax = KEPT_CHARACTERS_MAX): SchemaCache => {
  const items = Math.ceil(charactersMax / PROJECT_CHARACTERS);
  const known = createSizedCache<Known>({ items, bytes: charactersMax });
  return async (work, projects) => {
    const found = new Map<string, EventSchemas>();
    const moved: SchemaStamp[] = [];
    for (const project of projects) {
      if (project.stamp === null) continue;
      const kept = known.get(project.id);
      if (kept?.stamp === Number(project.stamp)) found.set(project.id, kept.schemas);
      else moved.push(project);
    }
    const read = moved.length === 0 ? undefined : await readSchemas(work, moved);
    for (const { id, tenant, stamp } of moved) {
      const made = knownOf(Number(stamp), read!.get(id) ?? []);
      known.keep(id, made, { owner: tenant, bytes: made.characters });
      found.set(id, made.schemas);
    }
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
