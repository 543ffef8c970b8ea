import { sql } from "kysely";
import { forgetKeys } from "../api-keys/authenticate.ts";
import { markTenant } from "../billing/customer.ts";
import { audit } from "../audit/audit.ts";
import { forgetSessions } from "../auth/sessions.ts";
import { removeDomainsOf } from "../domains/known.ts";
import { User } from "../auth/user.ts";
import type { Mail } from "../email/mail.ts";
import { conflict } from "../../kernel/errors.ts";
import { forgetProjects } from "../projects/project.ts";
import { endWebhooks } from "../projects/end-webhooks.ts";
import type { Work } from "../../kernel/work.ts";
import { lockTenant, type Tenant } from "./tenant.ts";
import { notifyOwners } from "./notify-owners.ts";

/** How long a deletion can be cancelled. */
export const DELETION_GRACE_DAYS = 30;
/** Maximum tenants deleted by one transaction. */
const DELETED_AT_ONCE = 20;

/**
 * Schedules a tenant for deletion in 30 days; until then it works as before and an OWNER can cancel it.
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
  await notifyOwners(mail, work, tenantId, { template: "tenant-deleted", values });
  return tenant;
};

/** Cancels a deletion. @throws CONFLICT INVALID_STATE when the tenant is not being deleted */
export const restoreTenant = async (work: Work, tenantId: string): Promise<Tenant> => {
  const tenant = await lockTenant(work, tenantId);
  if (!tenant.deleteAfter) throw conflict("INVALID_STATE", "The tenant is not being deleted");
  Object.assign(tenant, { deleteAfter: null, updatedAt: work.now });
  await audit(work, { ...about(tenantId), action: "tenant.restored" });
  return tenant;
};

const about = (tenantId: string) => ({ target: { type: "tenant", id: tenantId }, tenantId });

/**
 * Deletes tenants whose grace period is over: requests with their keys and sessions return 401,
 * and their users' accounts are deleted, which frees their addresses. Projects and players stay in the
 * database, inaccessible. Deletes a few at a time and returns how many.
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
    await removeDomainsOf(work, tenantId);
    // What it pays for is ended with it.
    await markTenant(work, tenantId);
    await audit(work, { ...about(tenantId), action: "tenant.deleted" });
  }
  work.afterCommit(forgetSessions);
  work.afterCommit(forgetKeys);
  work.afterCommit(forgetProjects);
  return rows.length;
};
