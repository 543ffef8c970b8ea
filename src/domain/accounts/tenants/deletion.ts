import { sql } from "kysely";
import { forgetKeys } from "../api-keys/authenticate.ts";
import { audit } from "../audit/audit.ts";
import { forgetSessions } from "../auth/sessions.ts";
import { User } from "../auth/user.ts";
import type { Mail } from "../email/mail.ts";
import { conflict } from "../../kernel/errors.ts";
import { forgetProjects } from "../projects/resolve.ts";
import { endWebhooks } from "../projects/end-webhooks.ts";
import type { Work } from "../../kernel/work.ts";
import { lockTenant } from "./lock-tenant.ts";
import { tellOwners } from "./tell-owners.ts";
import type { Tenant } from "./tenant.ts";

/** How long a deletion can be taken back. */
export const DELETION_GRACE_DAYS = 30;
/** Tenants that one transaction deletes. */
const DELETED_AT_ONCE = 20;

/**
 * Deletes a tenant in 30 days; until then it works as before and an OWNER can take it back.
 *
 * @throws CONFLICT INVALID_STATE when it is being deleted already
 */
export const deleteTenant = async (
  { mail }: { mail: Mail },
  work: Work,
  tenantId: string,
): Promise<Tenant> => {
  const tenant = await lockTenant(work, tenantId);
  if (tenant.deleteAfter) throw conflict("INVALID_STATE", "The tenant is being deleted already");
  const deleteAfter = new Date(work.now.getTime() + DELETION_GRACE_DAYS * 86_400_000);
  Object.assign(tenant, { deleteAfter, updatedAt: work.now });
  const data = { deleteAfter: deleteAfter.toISOString() };
  await audit(work, { ...about(tenantId), action: "tenant.deletion_requested", data });
  const values = { tenantName: tenant.name, ...data };
  await tellOwners(mail, work, tenantId, { template: "tenant-deleted", values });
  return tenant;
};

/** Takes a deletion back. @throws CONFLICT INVALID_STATE when the tenant is not being deleted */
export const restoreTenant = async (work: Work, tenantId: string): Promise<Tenant> => {
  const tenant = await lockTenant(work, tenantId);
  if (!tenant.deleteAfter) throw conflict("INVALID_STATE", "The tenant is not being deleted");
  Object.assign(tenant, { deleteAfter: null, updatedAt: work.now });
  await audit(work, { ...about(tenantId), action: "tenant.restored" });
  return tenant;
};

const about = (tenantId: string) => ({ target: { type: "tenant", id: tenantId }, tenantId });

/**
 * Ends tenants whose grace is over: keys and sessions answer 401 within 5 s, and the accounts of their people
 * are gone, so that the addresses are free again. Projects and players stay in the database, where nobody
 * reaches them. Gives how many it ended; it takes a few at once.
 */
export const deleteDueTenants = async (work: Work): Promise<number> => {
  const { db, em, now } = work;
  const at = now.toISOString();
  const { rows } = await sql<{ id: string }>`
    update tenants set deleted_at = ${at}::timestamptz, updated_at = ${at}::timestamptz
    where id in (
      select id from tenants where delete_after <= ${at}::timestamptz and deleted_at is null
      order by delete_after limit ${DELETED_AT_ONCE} for update skip locked)
    returning id`.execute(db);
  for (const { id: tenantId } of rows) {
    await em.nativeDelete(User, { tenantId });
    await sql`
      update invitations set status = 'REVOKED', updated_at = ${at}::timestamptz
      where tenant_id = ${tenantId}::uuid and status = 'PENDING'`.execute(db);
    await endWebhooks(work, { tenantId });
    await audit(work, { ...about(tenantId), action: "tenant.deleted" });
  }
  work.afterCommit(forgetSessions);
  work.afterCommit(forgetKeys);
  work.afterCommit(forgetProjects);
  return rows.length;
};
