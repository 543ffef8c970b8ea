import { sql } from "kysely";
import { forgetKeys } from "../api-keys/api-key.ts";
import { markTenant } from "../billing/customer.ts";
import { audit, ofTenant } from "../audit/audit.ts";
import { forgetSessions } from "../auth/sessions.ts";
import { removeDomainsOf } from "../domains/known.ts";
import { User } from "../auth/user.ts";
import type { Mail } from "../email/mail.ts";
import { conflict, DomainError, invalid } from "../../kernel/errors.ts";
import { forgetProjects, Project } from "../projects/project.ts";
import { definedOf, shown, shownIfSet } from "../../kernel/json.ts";
import { endWebhooks } from "../projects/projects.ts";
import type { Work } from "../../kernel/work.ts";
import { isRedirectUri } from "../oauth/provider.ts";
import { SsoDomain } from "../sso/domains.ts";
import { requireOwner, type TeamActor } from "../team/accept.ts";
import { seatsTaken } from "../team/invitations.ts";
import { limitsOf, PLAN_FEATURES } from "../../kernel/caller.ts";
import { lockTenant, type Tenant } from "./tenant.ts";
import { notifyOwners } from "./notify-owners.ts";

/** How long a deletion can be cancelled. */
const DELETION_GRACE_DAYS = 30;
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
  await audit(work, { ...ofTenant(tenantId), action: "tenant.deletion_requested", data });
  const values = { tenantName: tenant.name, ...data };
  await notifyOwners(mail, work, tenantId, { template: "tenant-deleted", values });
  return tenant;
};

/** Cancels a deletion. @throws CONFLICT INVALID_STATE when the tenant is not being deleted */
export const restoreTenant = async (work: Work, tenantId: string): Promise<Tenant> => {
  const tenant = await lockTenant(work, tenantId);
  if (!tenant.deleteAfter) throw conflict("INVALID_STATE", "The tenant is not being deleted");
  Object.assign(tenant, { deleteAfter: null, updatedAt: work.now });
  await audit(work, { ...ofTenant(tenantId), action: "tenant.restored" });
  return tenant;
};

/**
 * Deletes tenants whose grace period is over: requests with their keys and sessions return 401,
 * and their users' accounts and domains are deleted, which frees their addresses. Projects and players stay in the
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
    await em.nativeDelete(SsoDomain, { tenantId });
    // What it pays for is ended with it.
    await markTenant(work, tenantId);
    await audit(work, { ...ofTenant(tenantId), action: "tenant.deleted" });
  }
  work.afterCommit(forgetSessions);
  work.afterCommit(forgetKeys);
  work.afterCommit(forgetProjects);
  return rows.length;
};

export const REDIRECT_URIS_MAX = 20;
const REDIRECT_URI_RULE =
  "must be an https address as browsers spell it, without user and fragment (http only for localhost)";

/** Converts a tenant to the API representation for its members, with its usage of the plan. */
export const showTenant = async (work: Work, tenant: Tenant) => ({
  ...shown(tenant, ["id", "name", "plan", "approvalStatus", "redirectUris", "linkDomain"]),
  ...shown(tenant, ["createdAt", "updatedAt"]),
  ...shownIfSet(tenant, ["approvalReason", "deleteAfter"]),
  limits: limitsOf(tenant),
  features: [...PLAN_FEATURES[tenant.plan]],
  usage: {
    projects: await work.em.count(Project, { tenantId: tenant.id, sandboxOf: null, deletedAt: null }),
    members: await seatsTaken(work, tenant.id),
  },
  requireSecondFactor: tenant.secondFactorRequired,
});

type TenantChange = {
  name?: string | undefined;
  redirectUris?: string[] | undefined;
  /** A custom domain of the tenant; null for none. */
  linkDomain?: string | null | undefined;
  /** Members without a second factor may do nothing but set one up. */
  requireSecondFactor?: boolean | undefined;
};

/** Who changes a tenant. */
type Changing = { actor: TeamActor; isProduction: boolean };

/** @throws what of a change the actor may not do, or the tenant may not have */
const requireAllowed = async (
  work: Work,
  { actor, isProduction }: Changing,
  { redirectUris, linkDomain, requireSecondFactor }: TenantChange,
): Promise<void> => {
  if (redirectUris) {
    await requireOwner(work, actor, "Only an OWNER may change redirectUris");
    requireRedirectUris(redirectUris, isProduction);
  }
  if (linkDomain !== undefined) await requireLinkDomain(work, actor, linkDomain);
  if (requireSecondFactor !== undefined) {
    const { mfaEnabled } = await requireOwner(work, actor, "Only an OWNER may change requireSecondFactor");
    if (requireSecondFactor && !mfaEnabled)
      throw conflict("INVALID_STATE", "Set up your own second factor first: POST /auth/mfa/totp/setup");
  }
};

/**
 * Changes the given fields. Only an OWNER may change redirect URIs and the domain of links: tokens of all
 * members are sent to them, so an ADMIN could otherwise impersonate an OWNER. In production, http://localhost
 * is not allowed. Only an OWNER may require a second factor, and only one who has one themselves.
 *
 * @throws FORBIDDEN INSUFFICIENT_ROLE, VALIDATION_ERROR REDIRECT_URI_NOT_ALLOWED, CONFLICT INVALID_STATE
 */
export const updateTenant = async (work: Work, who: Changing, change: TenantChange): Promise<Tenant> => {
  const { tenantId } = who.actor;
  const tenant = await lockTenant(work, tenantId);
  await requireAllowed(work, who, change);
  const { name, redirectUris, linkDomain, requireSecondFactor } = change;
  const uris = redirectUris && [...new Set(redirectUris)];
  const changed = definedOf({ name, redirectUris: uris, linkDomain });
  Object.assign(tenant, changed, { updatedAt: work.now });
  if (name !== undefined) await markTenant(work, tenantId);
  if (requireSecondFactor !== undefined) {
    tenant.secondFactorRequired = requireSecondFactor;
    work.afterCommit(forgetSessions);
  }
  const data = { ...changed, ...definedOf({ requireSecondFactor }) };
  await audit(work, { ...ofTenant(tenantId), action: "tenant.updated", data });
  return tenant;
};

const requireLinkDomain = async (work: Work, actor: TeamActor, domain: string | null): Promise<void> => {
  await requireOwner(work, actor, "Only an OWNER may change linkDomain");
  if (domain === null) return;
  const { rows } = await sql`
    select from custom_domains
    where tenant_id = ${actor.tenantId}::uuid and domain = ${domain} and status = 'ACTIVE'`.execute(work.db);
  if (rows.length === 0) throw invalid("linkDomain", "must be a custom domain of the tenant that is ACTIVE");
};

const requireRedirectUris = (uris: readonly string[], isProduction: boolean): void => {
  const details = uris.flatMap((uri, index) => {
    if (isRedirectUri(uri, isProduction)) return [];
    return [{ field: `redirectUris.${index}`, message: REDIRECT_URI_RULE }];
  });
  const [first] = details;
  if (!first) return;
  throw new DomainError("VALIDATION_ERROR", `${first.field}: ${first.message}`, {
    details,
    reason: "REDIRECT_URI_NOT_ALLOWED",
  });
};
