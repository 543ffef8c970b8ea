import { audit } from "../audit/audit.ts";
import { notFound } from "../../kernel/errors.ts";
import type { Mail } from "../email/mail.ts";
import type { Limiter } from "../rate-limits/limiter.ts";
import { LIMITS } from "../rate-limits/limits.ts";
import { requireSeat } from "../team/seats.ts";
import { lockTenant } from "../tenants/lock-tenant.ts";
import { addUser, type NewUser } from "../tenants/open-tenant.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";
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
  // Of those who wait, too, a tenant has no more than seats: strangers decide how many come.
  await requireSeat(work, tenant, { withWaiting: true });
  const waiting = { role: "VIEWER", status: "PENDING", emailVerified: false } as const;
  const user = await addUser(work, tenantId, { ...account, ...waiting });
  const { id, email } = user;
  await audit(work, { action: "member.requested", target: { type: "user", id }, tenantId, data: { email } });
  return user;
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
