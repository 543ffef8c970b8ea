import { sql } from "kysely";
import type { Caller } from "../caller.ts";
import { projectChanges } from "../projects/resolve.ts";
import type { Transact } from "../work.ts";
import type { ReadContext } from "./event-input.ts";

type Rules = { id: string; maxEventAgeDays: number | null };

/** Answers stay this long; a change of settings in another process reaches ingestion within it, in ms. */
const CACHE_MS = 5_000;
const CACHE_MAX = 10_000;

export type ProjectRules = (caller: Caller, projectId: string) => Promise<Pick<ReadContext, "resolve">>;

/**
 * Makes the look-up of which projects a caller's events may name. A key's events belong to the key's project
 * and may repeat its id (for a test key that means the sandbox); a console user's may name any project of the
 * tenant, and the project of the request when they name none.
 */
export const createProjectRules = (transact: Transact, clock: () => Date): ProjectRules => {
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
      const [own] = await cached(caller.projectId, () => readRules(transact, "id", caller.projectId));
      const names = new Set([undefined, caller.projectId, caller.ownerProjectId]);
      return { resolve: (named) => (names.has(named?.toLowerCase()) ? own : undefined) };
    }
    const all = await cached(caller.tenantId, () => readRules(transact, "tenant_id", caller.tenantId));
    const byId = new Map(all.map((rules) => [rules.id, rules]));
    return { resolve: (named) => byId.get(named?.toLowerCase() ?? projectId) };
  };
};

const readRules = (transact: Transact, column: "id" | "tenant_id", value: string): Promise<Rules[]> =>
  transact(async ({ db }) => {
    const result = await sql<{ id: string; age: number | null }>`
      select id, (settings->>'maxEventAgeDays')::int as age from projects
      where ${sql.ref(column)} = ${value}::uuid and deleted_at is null`.execute(db);
    return result.rows.map(({ id, age }) => ({ id, maxEventAgeDays: age }));
  });
