import { z } from "zod";
import { forgetKeys } from "../api-keys/api-key.ts";
import { audit, ofTenant } from "../audit/audit.ts";
import { forgetSessions } from "../auth/sessions.ts";
import type { Mail } from "../email/mail.ts";
import { forgetProjects } from "../projects/project.ts";
import { endUnenforced } from "../sso/configure.ts";
import { notifyOwners } from "./notify-owners.ts";
import { lockTenant, type Tenant } from "./tenant.ts";
import { type ApprovalStatus, hasFeature, PLANS } from "../../kernel/caller.ts";
import { conflict } from "../../kernel/errors.ts";
import { noteUsageChange, type Work } from "../../kernel/work.ts";

export const PLAN_LIMIT_MAX = 1_000_000_000;
const Limit = z.int().min(0).max(PLAN_LIMIT_MAX).nullable().optional();

/** Limits of one tenant that override its plan's; null is unlimited, absent is the plan's. */
const PlanOverrides = z.strictObject({
  requestsPerMinute: Limit,
  eventsPerMonth: Limit,
  activePlayersPerMonth: Limit,
  projects: Limit,
  members: Limit,
  activeKeysPerProject: Limit,
  webhooks: Limit,
  customDomains: Limit,
  analyticsHistoryDays: Limit,
  deliveryLogDays: Limit,
  activityDays: Limit,
  executionsDays: Limit,
});

/** Changes by a super-admin; `planOverrides` replaces the previous ones. */
const PlanChange = z.object({
  plan: z.enum(PLANS).optional(),
  planOverrides: PlanOverrides.optional(),
});
type PlanChange = z.infer<typeof PlanChange>;

/**
 * Changes a tenant's plan, or its limits besides the plan's. What exceeds a lowered limit is kept, but cannot
 * grow. Where the plan brings single sign-on back and the tenant enforces it, other sessions end.
 *
 * @throws NOT_FOUND
 */
export const setPlan = async (work: Work, tenantId: string, change: PlanChange): Promise<Tenant> => {
  const { plan, planOverrides } = PlanChange.parse(change);
  const tenant = await lockTenant(work, tenantId);
  const from = { plan: tenant.plan, planOverrides: tenant.planOverrides };
  if (plan !== undefined) tenant.plan = plan;
  // A round trip removes undefined values.
  if (planOverrides)
    tenant.planOverrides = JSON.parse(JSON.stringify(planOverrides)) as typeof from.planOverrides;
  tenant.updatedAt = work.now;
  await work.em.flush();
  if (!hasFeature(from, "sso") && hasFeature(tenant, "sso")) await endUnenforced(work, tenantId);
  const to = { plan: tenant.plan, planOverrides: tenant.planOverrides };
  await audit(work, { ...ofTenant(tenantId), action: "tenant.plan_changed", data: { from, to } });
  // What is used may be more than the new limits.
  await noteUsageChange(work, tenantId);
  work.afterCommit(forgetSessions);
  work.afterCommit(forgetKeys);
  return tenant;
};

/** Minimum time between two requests for approval by an OWNER. */
const APPROVAL_REQUEST_HOURS = 24;

type ApprovalParts = { mail: Mail };

type Transition = {
  from: readonly ApprovalStatus[];
  to: ApprovalStatus;
  /** Of the audit log. */
  action: string;
};

const APPROVE: Transition = { from: ["PENDING", "REJECTED"], to: "APPROVED", action: "tenant.approved" };
const REJECT: Transition = { from: ["PENDING"], to: "REJECTED", action: "tenant.rejected" };
const SUSPEND: Transition = { from: ["APPROVED"], to: "SUSPENDED", action: "tenant.suspended" };
const UNSUSPEND: Transition = { from: ["SUSPENDED"], to: "APPROVED", action: "tenant.unsuspended" };
const REQUEST: Transition = { from: ["REJECTED"], to: "PENDING", action: "tenant.approval_requested" };

const move = async (
  work: Work,
  tenantId: string,
  { from, to, action }: Transition,
  reason: string | null,
): Promise<Tenant> => {
  const tenant = await lockTenant(work, tenantId);
  const was = tenant.approvalStatus;
  if (!from.includes(was)) {
    throw conflict("INVALID_STATE", `The tenant is ${was}; this needs ${from.join(" or ")}`);
  }
  Object.assign(tenant, { approvalStatus: to, approvalReason: reason, updatedAt: work.now });
  const data = { from: was, to, ...(reason === null ? {} : { reason }) };
  await audit(work, { ...ofTenant(tenantId), action, data });
  work.afterCommit(forgetSessions);
  work.afterCommit(forgetKeys);
  work.afterCommit(forgetProjects);
  return tenant;
};

/** PENDING or REJECTED becomes APPROVED. @throws NOT_FOUND, CONFLICT INVALID_STATE */
export const approveTenant = async (
  { mail }: ApprovalParts,
  work: Work,
  tenantId: string,
): Promise<Tenant> => {
  const tenant = await move(work, tenantId, APPROVE, null);
  const values = { tenantName: tenant.name };
  await notifyOwners(mail, work, tenantId, { template: "tenant-approved", values });
  return tenant;
};

/**
 * PENDING becomes REJECTED; its OWNERs are notified of the reason. @throws NOT_FOUND, CONFLICT INVALID_STATE
 */
export const rejectTenant = async (
  { mail }: ApprovalParts,
  work: Work,
  tenantId: string,
  reason: string,
): Promise<Tenant> => {
  const tenant = await move(work, tenantId, REJECT, reason);
  const values = { tenantName: tenant.name, reason };
  await notifyOwners(mail, work, tenantId, { template: "tenant-rejected", values });
  return tenant;
};

/**
 * APPROVED becomes SUSPENDED: requests with its keys, and most requests of its members, return 403
 * TENANT_SUSPENDED. @throws NOT_FOUND, CONFLICT INVALID_STATE
 */
export const suspendTenant = async (
  { mail }: ApprovalParts,
  work: Work,
  tenantId: string,
  reason: string,
): Promise<Tenant> => {
  const tenant = await move(work, tenantId, SUSPEND, reason);
  const values = { tenantName: tenant.name, reason };
  await notifyOwners(mail, work, tenantId, { template: "tenant-suspended", values });
  return tenant;
};

/** SUSPENDED becomes APPROVED again; its OWNERs are notified. @throws NOT_FOUND, CONFLICT INVALID_STATE */
export const unsuspendTenant = async (
  { mail }: ApprovalParts,
  work: Work,
  tenantId: string,
): Promise<Tenant> => {
  const tenant = await move(work, tenantId, UNSUSPEND, null);
  const values = { tenantName: tenant.name };
  await notifyOwners(mail, work, tenantId, { template: "tenant-unsuspended", values });
  return tenant;
};

/**
 * Requests approval again: REJECTED becomes PENDING.
 *
 * @throws CONFLICT INVALID_STATE in another state, APPROVAL_REQUESTED_RECENTLY within a day of the last time
 */
export const requestApproval = async (work: Work, tenantId: string): Promise<Tenant> => {
  const tenant = await move(work, tenantId, REQUEST, null);
  const before = tenant.approvalRequestedAt?.getTime() ?? -Infinity;
  if (work.now.getTime() - before < APPROVAL_REQUEST_HOURS * 3_600_000) {
    throw conflict(
      "APPROVAL_REQUESTED_RECENTLY",
      `Approval can be asked for once in ${APPROVAL_REQUEST_HOURS} hours`,
    );
  }
  tenant.approvalRequestedAt = work.now;
  return tenant;
};
