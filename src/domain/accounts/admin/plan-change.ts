import { lockTenant } from "../tenants/lock-tenant.ts";
import type { PlanLimits, Plan } from "../../kernel/plans.ts";
import { setPlan } from "../tenants/set-plan.ts";
import type { Tenant } from "../tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";

/** Null restores the plan's limit; absent leaves it unchanged. */
export type LimitChanges = Partial<Record<keyof PlanLimits, number | "unlimited" | null | undefined>>;

/** Changes a tenant's plan, and single limits that override it. @throws NOT_FOUND */
export const changeTenantPlan = async (
  work: Work,
  tenantId: string,
  { plan, limits }: { plan?: Plan | undefined; limits?: LimitChanges | undefined },
): Promise<Tenant> => {
  // Locked from here on, since the current overrides are changed.
  const tenant = await lockTenant(work, tenantId);
  const overrides = new Map(Object.entries(tenant.planOverrides));
  for (const [name, value] of Object.entries(limits ?? {})) {
    if (value === null) overrides.delete(name);
    else if (value !== undefined) overrides.set(name, value === "unlimited" ? null : value);
  }
  const planOverrides: Partial<PlanLimits> = Object.fromEntries(overrides);
  return setPlan(work, tenantId, { plan, planOverrides });
};
