import { sql } from "kysely";
import type { Caller } from "../kernel/caller.ts";
import { projectChanges } from "../accounts/projects/project.ts";
import { createSizedCache } from "../kernel/caches.ts";
import type { Transact } from "../kernel/work.ts";
import type { ReadContext } from "./event-input.ts";
import { createSchemaStore, type SchemaProject } from "./event-schemas.ts";

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
    const ready = await schemas(projectsOf(inputs, find));
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
const projectsOf = (inputs: readonly unknown[], find: Find): Set<Rules> => {
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

type Row = { id: string; tenant: string; age: number | null; stamp: number | null };

const readRules = (transact: Transact, column: "id" | "tenant_id", value: string): Promise<Rules[]> =>
  transact(async ({ db }) => {
    const { rows } = await sql<Row>`
      select id, tenant_id as tenant, (settings->>'maxEventAgeDays')::int as age,
        (select sum(schema_version) from event_types t
          where t.project_id = projects.id and t.schema_version > 0) as stamp
      from projects
      where ${sql.ref(column)} = ${value}::uuid and deleted_at is null`.execute(db);
    return rows.map(({ id, tenant, age, stamp }) => ({
      id,
      tenantId: tenant,
      maxEventAgeDays: age,
      stamp,
    }));
  });
