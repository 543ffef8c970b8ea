import { audit } from "../audit/audit.ts";
import { conflict, forbidden, notFound } from "../../kernel/errors.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";
import type { RegisteredUser } from "./registration-request.ts";
import { User } from "./user.ts";

export type Profile = { name: string; tenantName?: string | undefined };

/**
 * Completes, once, the account of a user whose provider gave no name.
 *
 * @throws CONFLICT INVALID_STATE when it was complete, FORBIDDEN INSUFFICIENT_ROLE for the tenant's name
 * unless an OWNER sets it
 */
export const completeProfile = async (
  work: Work,
  { userId, tenantId }: { userId: string; tenantId: string },
  { name, tenantName }: Profile,
): Promise<RegisteredUser & { profileCompleted: boolean }> => {
  const { em, now } = work;
  const user = await em.findOne(User, { id: userId, tenantId });
  // Removed since the session was read, which may be 5 s ago.
  if (!user) throw notFound("User");
  if (user.profileCompleted) {
    throw conflict("INVALID_STATE", "The profile is complete already; change it with PATCH /auth/me");
  }
  if (tenantName !== undefined) {
    if (user.role !== "OWNER") throw forbidden("INSUFFICIENT_ROLE", "Only an OWNER names the tenant");
    const tenant = await em.findOneOrFail(Tenant, { id: tenantId });
    Object.assign(tenant, { name: tenantName, updatedAt: now });
    const target = { type: "tenant", id: tenantId };
    await audit(work, { action: "tenant.updated", target, tenantId, data: { tenantName } });
  }
  Object.assign(user, { name, profileCompleted: true, updatedAt: now });
  const { id, email, role, emailVerified, profileCompleted } = user;
  return { id, email, name, tenantId, role, emailVerified, profileCompleted };
};
