import { sql } from "kysely";
import { actorOf } from "../caller.ts";
import { newId } from "../ids.ts";
import { UNANSWERED, type Work } from "../work.ts";

export type AuditTarget = { type: string; id: string };
export type AuditEntry = {
  /** `noun.past_tense`, such as `tenant.suspended`. */
  action: string;
  target: AuditTarget;
  /** Whose log shows it; null for what concerns the platform alone. */
  tenantId: string | null;
  /** What changed, without secrets. */
  data?: Record<string, unknown>;
};

/** Writes who did what, in the commit that does it. Rows are never changed or deleted. */
export const audit = async ({ db, by, now }: Work, entry: AuditEntry): Promise<void> => {
  const actor = by ? actorOf(by.caller) : "system";
  await sql`
    ${sql.raw(UNANSWERED)} insert into audit_log
      (id, tenant_id, actor, action, target_type, target_id, ip, request_id, data, created_at)
    values (${newId()}::uuid, ${entry.tenantId}::uuid, ${actor}, ${entry.action},
      ${entry.target.type}, ${entry.target.id}, ${by?.ip ?? ""}, ${by?.requestId ?? ""},
      ${JSON.stringify(entry.data ?? {})}::jsonb, ${now.toISOString()}::timestamptz)`.execute(db);
};
