import { audit } from "../audit/audit.ts";
import { User } from "../auth/user.ts";
import { DomainError, forbidden, notFound } from "../../kernel/errors.ts";
import { isRedirectUri } from "../oauth/redirects.ts";
import { Project } from "../projects/project.ts";
import { isActiveOwner, type TeamActor } from "../team/lock-team.ts";
import { seatsTaken } from "../team/seats.ts";
import type { Work } from "../../kernel/work.ts";
import { lockTenant } from "./lock-tenant.ts";
import { limitsOf, PLAN_FEATURES } from "../../kernel/plans.ts";
import { Tenant } from "./tenant.ts";

export const REDIRECT_URIS_MAX = 20;
const REDIRECT_URI_RULE =
  "must be an https address as browsers spell it, without user and fragment (http only for localhost)";

/** @throws NOT_FOUND also when it has been deleted */
export const getTenant = async ({ em }: Work, tenantId: string): Promise<Tenant> => {
  const tenant = await em.findOne(Tenant, { id: tenantId, deletedAt: null });
  if (!tenant) throw notFound("Tenant");
  return tenant;
};

/** Converts a tenant to the API representation for its members, with its usage of the plan. */
export const showTenant = async (work: Work, tenant: Tenant) => ({
  id: tenant.id,
  name: tenant.name,
  plan: tenant.plan,
  approvalStatus: tenant.approvalStatus,
  ...(tenant.approvalReason == null ? {} : { approvalReason: tenant.approvalReason }),
  limits: limitsOf(tenant),
  features: [...PLAN_FEATURES[tenant.plan]],
  usage: {
    projects: await work.em.count(Project, { tenantId: tenant.id, sandboxOf: null, deletedAt: null }),
    members: await seatsTaken(work, tenant.id),
  },
  redirectUris: tenant.redirectUris,
  ...(tenant.deleteAfter ? { deleteAfter: tenant.deleteAfter.toISOString() } : {}),
  createdAt: tenant.createdAt.toISOString(),
  updatedAt: tenant.updatedAt.toISOString(),
});

export type TenantChange = { name?: string | undefined; redirectUris?: string[] | undefined };

/**
 * Changes the given fields. Only an OWNER may change redirect URIs: tokens of all members are sent to them,
 * so an ADMIN could otherwise impersonate an OWNER. In production, http://localhost is not allowed.
 *
 * @throws FORBIDDEN INSUFFICIENT_ROLE, VALIDATION_ERROR REDIRECT_URI_NOT_ALLOWED
 */
export const updateTenant = async (
  work: Work,
  { actor, isProduction }: { actor: TeamActor; isProduction: boolean },
  { name, redirectUris }: TenantChange,
): Promise<Tenant> => {
  const { tenantId } = actor;
  const tenant = await lockTenant(work, tenantId);
  if (redirectUris) {
    await requireOwner(work, actor);
    requireRedirectUris(redirectUris, isProduction);
  }
  const changed = {
    ...(name === undefined ? {} : { name }),
    ...(redirectUris ? { redirectUris: [...new Set(redirectUris)] } : {}),
  };
  Object.assign(tenant, changed, { updatedAt: work.now });
  const target = { type: "tenant", id: tenantId };
  await audit(work, { action: "tenant.updated", target, tenantId, data: changed });
  return tenant;
};

/** Reads the row: the role of the request may be 5 s old. */
const requireOwner = async ({ em }: Work, { tenantId, userId }: TeamActor): Promise<void> => {
  const user = await em.findOne(User, { id: userId, tenantId }, { refresh: true });
  if (user && isActiveOwner(user)) return;
  throw forbidden("INSUFFICIENT_ROLE", "Only an OWNER may change redirectUris");
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
