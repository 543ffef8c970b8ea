import { sql } from "kysely";
import type { Json } from "../kernel/events/events.ts";
import { FairLine } from "../kernel/fair-line.ts";
import { createSizedCache } from "../kernel/sized-cache.ts";
import type { StepBudget } from "../kernel/step-budget.ts";
import type { Transact } from "../kernel/work.ts";
import { COMPILE_STEPS_MAX, compileSchema, type Validate } from "./json-schema/schema.ts";

export const ENFORCEMENTS = ["OFF", "WARN", "REJECT"] as const;
export type Enforcement = (typeof ENFORCEMENTS)[number];

/** What the schema of an event's type says against the event. */
export type Mismatch = { enforcement: "WARN" | "REJECT"; failures: { field: string; message: string }[] };

/** The schemas of those event types of a request that are enforced in their project. */
export type EventSchemas = {
  /**
   * Undefined when the type has no schema or the properties fit it.
   * @param shared what all checks of a request may take together
   */
  check(eventType: string, properties: Json, shared?: StepBudget): Mismatch | undefined;
};

const PROPERTIES = "properties";

/** A schema, ready. `version` rises with each change of it. */
type Ready = { version: number; enforcement: "WARN" | "REJECT"; validate: Validate };

const schemasOf = (ready: ReadonlyMap<string, Ready>): EventSchemas => ({
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
 * Makes ready the schemas that events of these types are checked against, by project. What is not kept is
 * read and compiled: one project at a time in a process, in slices, next that of the tenant who has had the
 * least of it.
 */
export type SchemaStore = (
  wanted: ReadonlyMap<SchemaProject, ReadonlySet<string>>,
) => Promise<Map<SchemaProject, EventSchemas>>;

/** Characters of the schemas, as JSON, that the events of one request may be checked against. */
export const REQUEST_CHARACTERS_MAX = 2 * 1024 * 1024;
/** Memory of compiled schemas that a process keeps, in bytes. */
const KEPT_BYTES_MAX = 64 * 1024 * 1024;
/** What one takes for each character of its JSON at most, and beside them. */
const BYTES_PER_CHARACTER = 36;
const SCHEMA_BYTES = 1_024;
/** Memory of what is known of schemas without reading them. */
const HEADS_BYTES_MAX = 8 * 1024 * 1024;
const HEAD_BYTES = 256;
const PROJECTS_MAX = 10_000;

/** A schema that is enforced, by what is known without reading it. */
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

/** @param bytesMax what is kept between calls */
export const createSchemaStore = (transact: Transact, bytesMax = KEPT_BYTES_MAX): SchemaStore => {
  const heads = createSizedCache<Heads>({ items: PROJECTS_MAX, bytes: HEADS_BYTES_MAX });
  const kept = createSizedCache<Ready>({ items: Math.ceil(bytesMax / SCHEMA_BYTES), bytes: bytesMax });
  const line = new FairLine();

  const headsOf = async ({ id, tenantId, stamp }: SchemaProject): Promise<Heads["byName"]> => {
    const known = heads.get(id);
    if (known?.stamp === stamp) return known.byName;
    const byName = new Map((await readHeads(transact, id)).map((head) => [head.name, head]));
    const size = { owner: tenantId, bytes: HEAD_BYTES * (1 + byName.size) };
    heads.keep(id, { stamp: stamp!, byName }, size);
    return byName;
  };

  /** Puts those that are kept into `ready`. @returns the others */
  const takeKept = ({ id }: SchemaProject, asked: readonly Head[], ready: Map<string, Ready>): Head[] =>
    asked.filter(({ name, version }) => {
      const found = kept.get(keyOf(id, name));
      if (!found || found.version < version) return true;
      ready.set(name, found);
      return false;
    });

  const compile = ({ id, tenantId }: SchemaProject, asked: readonly Head[], ready: Map<string, Ready>) =>
    line.run(tenantId, async (steps) => {
      // Whoever was in front may have asked for the same.
      const missing = takeKept({ id, tenantId, stamp: null }, asked, ready);
      for (const stored of missing.length === 0 ? [] : await readSchemas(transact, id, missing)) {
        const size = {
          owner: tenantId,
          bytes: SCHEMA_BYTES + BYTES_PER_CHARACTER * stored.characters,
        };
        ready.set(stored.name, kept.keep(keyOf(id, stored.name), readyOf(stored), size));
        steps.spend(COMPILE_STEPS_MAX);
        await steps.rest();
      }
    });

  return async (wanted) => {
    const found = new Map<SchemaProject, EventSchemas>();
    let characters = 0;
    for (const [project, types] of wanted) {
      if (project.stamp === null) continue;
      const known = await headsOf(project);
      const ready = new Map<string, Ready>();
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

const readyOf = ({ version, enforcement, schema }: StoredSchema): Ready => {
  const made = compileSchema(schema);
  // What was saved has been compiled once; a schema of another version of the server accepts everything.
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
