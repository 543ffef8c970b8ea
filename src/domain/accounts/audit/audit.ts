import { sql } from "kysely";
import { actorOf } from "../../kernel/caller.ts";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import { unanswered } from "../../kernel/statements.ts";

export type AuditTarget = { type: string; id: string };
export type AuditEntry = {
  /** `noun.past_tense`, such as `tenant.suspended`. */
  action: string;
  target: AuditTarget;
  /** The tenant whose log shows it; null for the platform alone. */
  tenantId: string | null;
  /** The changes, without secrets. */
  data?: Record<string, unknown>;
};

/** Maximum rows of one statement. */
const ROWS_MAX = 500;

/** Records an action in the commit that performs it. Rows are never changed or deleted. */
export const audit = (work: Work, entry: AuditEntry): Promise<void> => auditAll(work, [entry]);

/** As `audit`, for many actions: one statement for every 500. */
export const auditAll = async (work: Work, entries: readonly AuditEntry[]): Promise<void> => {
  for (let i = 0; i < entries.length; i += ROWS_MAX)
    await insertEntries(work, entries.slice(i, i + ROWS_MAX));
};

const insertEntries = async ({ db, by, now }: Work, entries: readonly AuditEntry[]): Promise<void> => {
  const actor = by ? actorOf(by.caller) : "system";
  const rows = entries.map(({ action, target, tenantId, data = {} }) => {
    return { id: newId(), tenant: tenantId, action, type: target.type, target: target.id, data };
  });
  await unanswered(
    db,
    sql`
    insert into audit_log
      (id, tenant_id, actor, action, target_type, target_id, ip, request_id, data, created_at)
    select id, tenant, ${actor}, action, type, target, ${by?.ip ?? ""}, ${by?.requestId ?? ""},
      data, ${now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json)
      as r(id uuid, tenant uuid, action text, type text, target text, data jsonb)`,
  );
};
