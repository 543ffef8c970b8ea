import type { Plan, PlanLimits } from "../../../src/domain/kernel/caller.ts";
import { Tenant } from "../../../src/domain/accounts/tenants/tenant.ts";
import type { TestApp } from "./app.ts";

/** Puts a tenant on a plan, as a super-admin would; requests go by it within 5 s. */
export const putOnPlan = async (
  { app }: TestApp,
  tenantId: string,
  plan: Plan,
  planOverrides: Partial<PlanLimits> = {},
): Promise<void> => {
  await app.transact(({ em }) => em.nativeUpdate(Tenant, { id: tenantId }, { plan, planOverrides }));
};
