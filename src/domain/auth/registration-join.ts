import { audit } from "../audit/audit.ts";
import { DomainError, notFound } from "../errors.ts";
import type { Mail } from "../email/mail.ts";
import type { Limiter } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";
import { Invitation } from "../team/invitation.ts";
import { lockTenant } from "../tenants/lock-tenant.ts";
import { addUser, type NewUser } from "../tenants/open-tenant.ts";
import { limitsOf } from "../tenants/plans.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../work.ts";
import { User } from "./user.ts";

/** Of those who are told that somebody waits. */
const TOLD_MAX = 20;

/** A tenant that people may ask to join: not one that is being deleted. @throws NOT_FOUND */
export const requireOpenTenant = async ({ em }: Work, tenantId: string): Promise<Tenant> => {
  const tenant = await em.findOne(Tenant, { id: tenantId, deletedAt: null, deleteAfter: null });
  if (!tenant) throw notFound("Tenant");
  return tenant;
};

/**
 * Adds a VIEWER who waits until somebody of the tenant accepts them, and can do nothing but see to their own
 * account until then.
 *
 * @throws NOT_FOUND, PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED
 */
export const joinWaiting = async (
  work: Work,
  tenantId: string,
  account: Pick<NewUser, "email" | "name" | "passwordHash">,
): Promise<User> => {
  // Held, so that two who come at once are not both the last one who fits in.
  const tenant = await lockTenant(work, tenantId);
  if (tenant.deleteAfter) throw notFound("Tenant");
  await requireSeat(work, tenant);
  const waiting = { role: "VIEWER", status: "PENDING", emailVerified: false } as const;
  const user = await addUser(work, tenantId, { ...account, ...waiting });
  const { id, email } = user;
  await audit(work, { action: "member.requested", target: { type: "user", id }, tenantId, data: { email } });
  return user;
};

const requireSeat = async ({ em, now }: Work, tenant: Tenant): Promise<void> => {
  const { members } = limitsOf(tenant);
  if (members === null) return;
  const { id: tenantId } = tenant;
  const users = await em.count(User, { tenantId });
  const invited = await em.count(Invitation, { tenantId, status: "PENDING", expiresAt: { $gt: now } });
  if (users + invited < members) return;
  throw new DomainError("PAYMENT_REQUIRED", "The tenant has as many members as its plan allows", {
    reason: "PLAN_LIMIT_EXCEEDED",
  });
};

/** Whether the tenant may be mailed that somebody waits: strangers decide how often that happens. */
export const isNoticeAllowed = async (limiter: Limiter, tenantId: string | undefined): Promise<boolean> =>
  tenantId !== undefined &&
  (await limiter.consume(LIMITS.mailTenant, `member-pending:${tenantId}`)).isAllowed;

/** Tells those who can accept a waiting user. */
export const tellAdmins = async (work: Work, mail: Mail, { tenantId, name, email }: User): Promise<void> => {
  const { name: tenantName } = await work.em.findOneOrFail(Tenant, { id: tenantId });
  const admins = await work.em.find(
    User,
    { tenantId, role: { $in: ["OWNER", "ADMIN"] }, status: "ACTIVE", disabledAt: null },
    { orderBy: { createdAt: "asc", id: "asc" }, limit: TOLD_MAX },
  );
  for (const { id: userId, email: to } of admins) {
    const values = { tenantName, name, email };
    await mail.queue(work, { template: "member-pending", to, values, tenantId, userId });
  }
};
