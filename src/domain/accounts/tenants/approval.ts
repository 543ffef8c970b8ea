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

type Transition = {
  from: readonly ApprovalStatus[];
  to: ApprovalStatus;
  /** Of the audit log, and of the mail to the OWNERs. */
  done: "approved" | "rejected" | "suspended" | "unsuspended" | "approval_requested";
};

/** What a super-admin decides about a tenant. */
const DECISIONS = {
  approve: { from: ["PENDING", "REJECTED"], to: "APPROVED", done: "approved" },
  reject: { from: ["PENDING"], to: "REJECTED", done: "rejected" },
  suspend: { from: ["APPROVED"], to: "SUSPENDED", done: "suspended" },
  unsuspend: { from: ["SUSPENDED"], to: "APPROVED", done: "unsuspended" },
} as const satisfies Record<string, Transition>;
export type Decision = keyof typeof DECISIONS;
const REQUEST: Transition = { from: ["REJECTED"], to: "PENDING", done: "approval_requested" };

const move = async (
  work: Work,
  tenantId: string,
  { from, to, done }: Transition,
  reason: string | null,
): Promise<Tenant> => {
  const tenant = await lockTenant(work, tenantId);
  const was = tenant.approvalStatus;
  if (!from.includes(was)) {
    throw conflict("INVALID_STATE", `The tenant is ${was}; this needs ${from.join(" or ")}`);
  }
  Object.assign(tenant, { approvalStatus: to, approvalReason: reason, updatedAt: work.now });
  const data = { from: was, to, ...(reason === null ? {} : { reason }) };
  await audit(work, { ...ofTenant(tenantId), action: `tenant.${done}`, data });
  work.afterCommit(forgetSessions);
  work.afterCommit(forgetKeys);
  work.afterCommit(forgetProjects);
  return tenant;
};

/**
 * Moves a tenant to another state, and tells its OWNERs by mail. While it is SUSPENDED, requests with its keys
 * and most requests of its members return 403 TENANT_SUSPENDED.
 *
 * @param reason of a rejection or suspension
 * @throws NOT_FOUND, CONFLICT INVALID_STATE
 */
export const decideTenant = async (
  work: Work,
  mail: Mail,
  { tenantId, decision, reason }: { tenantId: string; decision: Decision; reason?: string | undefined },
): Promise<Tenant> => {
  const decided = DECISIONS[decision];
  const tenant = await move(work, tenantId, decided, reason ?? null);
  const values = { tenantName: tenant.name, reason: reason ?? "" };
  await notifyOwners(mail, work, tenantId, { template: `tenant-${decided.done}`, values });
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
