import { sql } from "kysely";
import type { Work } from "../kernel/work.ts";

/**
 * Returns the bytes of the definitions that plans of these projects are compiled from, without reading them:
 * one statement for all. A project without definitions is missing.
 */
export const readPlanBytes = async (
  { db }: Work,
  projectIds: readonly string[],
): Promise<Map<string, number>> => {
  if (projectIds.length === 0) return new Map();
  const ids = sql`any(${`{${projectIds.join(",")}}`}::uuid[])`;
  const found = await sql<{ project_id: string; bytes: string | number }>`
    select project_id, sum(bytes) as bytes from (
      select r.project_id, v.bytes
      from rules r join rule_versions v on v.rule_id = r.id and v.version = r.published_version
      where r.project_id = ${ids} and r.status in ('ACTIVE', 'SHADOW')
      union all select project_id, bytes from definitions
      where project_id = ${ids} and status = 'ACTIVE'
      union all select project_id, bytes from leaderboards
      where project_id = ${ids} and status <> 'ARCHIVED') those
    group by project_id`.execute(db);
  return new Map(found.rows.map(({ project_id, bytes }) => [project_id, Number(bytes)]));
};
