import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/**
 * Deletes webhooks of a tenant, or only those of some of its projects: once committed, nothing is sent to
 * them except deliveries in progress. Past deliveries are deleted when their retention ends.
 */
export const endWebhooks = async (
  { db, now }: Work,
  { tenantId, projectIds }: { tenantId: string; projectIds?: readonly string[] },
): Promise<void> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  const which =
    projectIds === undefined ? sql`true` : sql`project_id = any(${`{${projectIds.join(",")}}`}::uuid[])`;
  await sql`
    update webhooks set deleted_at = ${at}, updated_at = ${at}
    where tenant_id = ${tenantId}::uuid and deleted_at is null and ${which}`.execute(db);
};
