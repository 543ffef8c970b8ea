import { sql } from "kysely";
import { forgetSessions } from "../auth/sessions.ts";
import type { Work } from "../../kernel/work.ts";

/** Ends a tenant's sessions that began by single sign-on, or all others. */
export const endTenantSessions = async (
  { db, now, afterCommit }: Work,
  tenantId: string,
  which: "SSO" | "OTHERS",
): Promise<void> => {
  await sql`
    update sessions set revoked_at = ${now.toISOString()}::timestamptz, revoked_for = 'SSO_CHANGED'
    where tenant_id = ${tenantId}::uuid and revoked_at is null
      and (method = 'SSO') = ${which === "SSO"}`.execute(db);
  afterCommit(forgetSessions);
};

/**
 * Ends the sessions that a tenant's enforcement allows nobody, now that its plan has single sign-on again:
 * while it had not, everybody could sign in otherwise. The plan is stored. Sign-ins hold the row of the
 * configuration: those that began before have ended once it is locked, and are seen.
 */
export const endUnenforced = async (work: Work, tenantId: string): Promise<void> => {
  const { rows } = await sql`
    select 1 from sso_configurations
    where tenant_id = ${tenantId}::uuid and enforce_sso and status = 'ACTIVE' for update`.execute(work.db);
  if (rows.length > 0) await endTenantSessions(work, tenantId, "OTHERS");
};
