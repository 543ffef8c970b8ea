import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/**
 * Deletes webhooks of a tenant, or those of some of its projects alone: nothing is sent to them once this is
 * committed but what was on its way. What was sent goes when its time is over.
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
