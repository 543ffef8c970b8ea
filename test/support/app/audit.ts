import { sql } from "kysely";
import type { TestApp } from "./app.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- what is told depends on the action
export type Audited = { action: string; actor: string; tenant: string; data: any };

/** What the audit log says about a target, oldest first. */
export const auditOf = ({ app }: TestApp, targetId: string): Promise<Audited[]> =>
  app.transact(async ({ db }) => {
    const found = await sql<Audited>`
      select action, actor, tenant_id as tenant, data from audit_log
      where target_id = ${targetId} order by created_at, id`.execute(db);
    return found.rows;
  });
