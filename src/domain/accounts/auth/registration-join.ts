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

/** Maximum recipients of a notice that somebody waits. */
const RECIPIENTS_MAX = 20;

/** Returns a tenant that people may ask to join: not one that is being deleted. @throws NOT_FOUND */
export const requireOpenTenant = async ({ em }: Work, tenantId: string): Promise<Tenant> => {
  const tenant = await em.findOne(Tenant, { id: tenantId, deletedAt: null, deleteAfter: null });
  if (!tenant) throw notFound("Tenant");
  return tenant;
};

/**
 * Adds a VIEWER who waits to be accepted by somebody of the tenant, and can only manage their own account
 * until then.
 *
 * @throws NOT_FOUND, PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED
 */
export const joinWaiting = async (
  work: Work,
  tenantId: string,
  account: Pick<NewUser, "email" | "name" | "passwordHash">,
): Promise<User> => {
  // Locked, so that two concurrent registrations cannot both take the last seat.
  const tenant = await lockTenant(work, tenantId);
  if (tenant.deleteAfter) throw notFound("Tenant");
  // Waiting users are limited to the seats of the plan as well: strangers decide how many register.
  await requireSeat(work, tenant, { withWaiting: true });
  const waiting = { role: "VIEWER", status: "PENDING", emailVerified: false } as const;
  const user = await addUser(work, tenantId, { ...account, ...waiting });
  const { id, email } = user;
  await audit(work, { action: "member.requested", target: { type: "user", id }, tenantId, data: { email } });
  return user;
};

/** Returns whether the tenant may be mailed about a waiting user: strangers decide how often that happens. */
export const isNoticeAllowed = async (limiter: Limiter, tenantId: string | undefined): Promise<boolean> =>
  tenantId !== undefined &&
  (await limiter.consume(LIMITS.mailTenant, `member-pending:${tenantId}`)).isAllowed;

/** Notifies those who can accept a waiting user. */
export const notifyAdminsOfJoin = async (
  work: Work,
  mail: Mail,
  { tenantId, name, email }: User,
): Promise<void> => {
  const { name: tenantName } = await work.em.findOneOrFail(Tenant, { id: tenantId });
  const admins = await work.em.find(
    User,
    { tenantId, role: { $in: ["OWNER", "ADMIN"] }, status: "ACTIVE", disabledAt: null },
    { orderBy: { createdAt: "asc", id: "asc" }, limit: RECIPIENTS_MAX },
  );
  for (const { id: userId, email: to } of admins) {
    const values = { tenantName, name, email };
    await mail.queue(work, { template: "member-pending", to, values, tenantId, userId });
  }
};
