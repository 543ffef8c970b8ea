import { sql } from "kysely";
import type { Caller } from "../caller.ts";
import { projectChanges } from "../projects/resolve.ts";
import type { Transact } from "../work.ts";
import type { ReadContext } from "./event-input.ts";
import { createSchemaCache, type EventSchemas, type SchemaCache } from "./event-schemas.ts";

type Rules = { id: string; maxEventAgeDays: number | null; schemas?: EventSchemas };

/** Answers stay this long; a change of settings in another process reaches ingestion within it, in ms. */
const CACHE_MS = 5_000;
const CACHE_MAX = 10_000;

export type ProjectRules = (caller: Caller, projectId: string) => Promise<Pick<ReadContext, "resolve">>;

/**
 * Makes the look-up of which projects a caller's events may name, and what these say of events. A key's
 * events belong to the key's project and may repeat its id (for a test key that means the sandbox); a console
 * user's may name any project of the tenant, and the project of the request when they name none.
 */
export const createProjectRules = (transact: Transact, clock: () => Date): ProjectRules => {
  const schemas = createSchemaCache();
  const cache = new Map<string, { until: number; changes: number; rules: Rules[] }>();
  const cached = async (key: string, read: () => Promise<Rules[]>): Promise<Rules[]> => {
    const now = clock().getTime();
    const changes = projectChanges();
    const known = cache.get(key);
    if (known && known.until > now && known.changes === changes) return known.rules;
    const rules = await read();
    if (cache.size >= CACHE_MAX) cache.clear();
    cache.set(key, { until: now + CACHE_MS, changes, rules });
    return rules;
  };

  return async (caller, projectId) => {
    if (caller.kind === "anonymous" || caller.kind === "admin") return { resolve: () => undefined };
    if (caller.kind === "key") {
      const [own] = await cached(caller.projectId, () =>
        readRules({ transact, schemas }, "id", caller.projectId),
      );
      const names = new Set([undefined, caller.projectId, caller.ownerProjectId]);
      return { resolve: (named) => (names.has(named?.toLowerCase()) ? own : undefined) };
    }
    const all = await cached(caller.tenantId, () =>
      readRules({ transact, schemas }, "tenant_id", caller.tenantId),
    );
    const byId = new Map(all.map((rules) => [rules.id, rules]));
    return { resolve: (named) => byId.get(named?.toLowerCase() ?? projectId) };
  };
};

type Parts = { transact: Transact; schemas: SchemaCache };
type Row = { id: string; tenant: string; age: number | null; stamp: string | number | null };

const readRules = (
  { transact, schemas }: Parts,
  column: "id" | "tenant_id",
  value: string,
): Promise<Rules[]> =>
  transact(async (work) => {
    const { rows } = await sql<Row>`
      select id, tenant_id as tenant, (settings->>'maxEventAgeDays')::int as age,
        (select sum(schema_version) from event_types t
          where t.project_id = projects.id and t.schema_version > 0) as stamp
      from projects
      where ${sql.ref(column)} = ${value}::uuid and deleted_at is null`.execute(work.db);
    const found = await schemas(work, rows);
    return rows.map(({ id, age }) => {
      const own = found.get(id);
      return { id, maxEventAgeDays: age, ...(own ? { schemas: own } : {}) };
    });
  });
