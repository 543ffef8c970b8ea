import { z } from "zod";
import { forgetKeys } from "../api-keys/authenticate.ts";
import { audit } from "../audit/audit.ts";
import { forgetSessions } from "../auth/sessions.ts";
import { noteUsageChange } from "../../kernel/usage-counters.ts";
import type { Work } from "../../kernel/work.ts";
import { lockTenant } from "./lock-tenant.ts";
import { hasFeature, PLANS } from "../../kernel/plans.ts";
import { endUnenforced } from "../sso/end-sessions.ts";
import type { Tenant } from "./tenant.ts";

export const PLAN_LIMIT_MAX = 1_000_000_000;
const Limit = z.int().min(0).max(PLAN_LIMIT_MAX).nullable().optional();

/** Limits of one tenant that override its plan's; null is unlimited, absent is the plan's. */
export const PlanOverrides = z.strictObject({
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
export const PlanChange = z.object({
  plan: z.enum(PLANS).optional(),
  planOverrides: PlanOverrides.optional(),
});
export type PlanChange = z.infer<typeof PlanChange>;

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
  const target = { type: "tenant", id: tenantId };
  await audit(work, { action: "tenant.plan_changed", target, tenantId, data: { from, to } });
  // What is used may be more than the new limits.
  await noteUsageChange(work, tenantId);
  work.afterCommit(forgetSessions);
  work.afterCommit(forgetKeys);
  return tenant;
};
