import { z } from "zod";
import {
  changeTenantPlan,
  countOfTenant,
  getPlatformTenant,
  type LimitChanges,
  listPlatformTenants,
  showPlatformTenant,
} from "../../domain/accounts/admin/tenants.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import {
  approveTenant,
  PLAN_LIMIT_MAX,
  rejectTenant,
  suspendTenant,
  unsuspendTenant,
} from "../../domain/accounts/tenants/approval.ts";
import { APPROVAL_STATUSES, PLAN_LIMITS, type PlanLimits, PLANS } from "../../domain/kernel/caller.ts";
import { followPlan } from "../../domain/delivery/plan-change.ts";

import { Order, pageReply, Search } from "./list-bodies.ts";
import { PEOPLE, ReasonBody, superadmin } from "./superadmin.ts";

const LIMIT_NAMES = Object.keys(PLAN_LIMITS.FREE) as (keyof PlanLimits)[];

const limits = <S extends z.ZodType>(schema: (name: keyof PlanLimits) => S) =>
  z.object(
    Object.fromEntries(LIMIT_NAMES.map((name) => [name, schema(name)])) as Record<keyof PlanLimits, S>,
  );

const ShownLimit = z.union([z.int(), z.literal("unlimited")]).optional();

const TenantBody = z
  .object({
    id: z.uuid(),
    name: z.string(),
    approvalStatus: z.enum(APPROVAL_STATUSES),
    approvalReason: z.string().nullable().meta({ description: "Why it was rejected or suspended" }),
    approvalRequestedAt: z.iso.datetime().nullable(),
    plan: z.enum(PLANS),
    planOverrides: limits(() => ShownLimit),
    limits: limits(() => ShownLimit).meta({
      description: "Effective limits: the plan's, overridden by planOverrides",
    }),
    deleteAfter: z.iso.datetime().nullable(),
    deletedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "PlatformTenant" });

const TenantChange = z.object({
  plan: z.enum(PLANS).optional(),
  planOverrides: z
    .strictObject(
      limits((name) =>
        z
          .union([
            z
              .int()
              .min(name === "requestsPerMinute" ? 1 : 0)
              .max(PLAN_LIMIT_MAX),
            z.literal("unlimited"),
          ])
          .nullable()
          .optional(),
      ).shape,
    )
    .optional()
    .meta({
      description: "Numbers or \"unlimited\" over the plan's own; null goes back to the plan's; others stay.",
      example: { requestsPerMinute: 2_000, members: "unlimited", webhooks: null },
    }),
});

const TenantParams = z.object({ tenantId: z.string() });
const common = superadmin.with({ access: PEOPLE });
const ofTenant = common.with({ params: TenantParams, response: TenantBody });

const reading = [
  common.get("/superadmin/tenants", "listPlatformTenants", {
    summary: "List the tenants of the platform",
    query: PageQuery.extend({
      sort: z.enum(["createdAt", "name"]).default("createdAt"),
      order: Order,
      approvalStatus: z.enum(APPROVAL_STATUSES).optional(),
      plan: z.enum(PLANS).optional(),
      search: Search.meta({ description: "Part of the name or of an OWNER's email address" }),
    }),
    response: pageBody(TenantBody),
    run: async (work, { query }) =>
      pageReply(await listPlatformTenants(work, query), "tenants", query, showPlatformTenant),
  }),
  common.get("/superadmin/tenants/{tenantId}", "getPlatformTenant", {
    summary: "Get a tenant of the platform",
    params: TenantParams,
    response: TenantBody.extend({
      counts: z.object({ projects: z.int(), members: z.int(), activeKeys: z.int() }),
    }),
    run: async (work, { params }) => {
      const tenant = await getPlatformTenant(work, params.tenantId);
      return { ...showPlatformTenant(tenant), counts: await countOfTenant(work, tenant.id) };
    },
  }),
];

const changing = [
  ofTenant.patch("/superadmin/tenants/{tenantId}", "updatePlatformTenant", {
    summary: "Change a tenant's plan and limits",
    description:
      "Requests feel it within 5 seconds. What is beyond a lower limit stays; webhooks without room are " +
      "paused. Of another plan its OWNERs and ADMINs are told by mail.",
    body: TenantChange,
    example: { plan: "PRO", planOverrides: { members: "unlimited" } },
    run: async (work, { params, body }, app) => {
      const changes: { plan?: (typeof PLANS)[number] | undefined; limits?: LimitChanges | undefined } = {
        plan: body.plan,
        limits: body.planOverrides,
      };
      const { plan: from } = await getPlatformTenant(work, params.tenantId);
      const tenant = await changeTenantPlan(work, params.tenantId, changes);
      await work.em.flush();
      await followPlan(work, app.mail, { tenant, from });
      return showPlatformTenant(tenant);
    },
  }),
  ofTenant.post("/superadmin/tenants/{tenantId}/approve", "approveTenant", {
    summary: "Approve a tenant",
    description: "PENDING or REJECTED becomes APPROVED; its OWNERs are notified by mail.",
    outside: ({ transact, mail }, { params }) =>
      transact(async (work) => showPlatformTenant(await approveTenant({ mail }, work, params.tenantId))),
  }),
  ofTenant.post("/superadmin/tenants/{tenantId}/reject", "rejectTenant", {
    summary: "Reject a tenant",
    description: "PENDING becomes REJECTED; its OWNERs are notified of the reason by mail.",
    body: ReasonBody,
    example: { reason: "Fake address" },
    outside: ({ transact, mail }, { params, body }) =>
      transact(async (work) =>
        showPlatformTenant(await rejectTenant({ mail }, work, params.tenantId, body.reason)),
      ),
  }),
  ofTenant.post("/superadmin/tenants/{tenantId}/suspend", "suspendTenant", {
    summary: "Suspend a tenant",
    description:
      "APPROVED becomes SUSPENDED: within 5 seconds its keys and most of what its people may do answer 403 " +
      "TENANT_SUSPENDED. Its OWNERs are notified of the reason by mail.",
    body: ReasonBody,
    example: { reason: "Unpaid" },
    outside: ({ transact, mail }, { params, body }) =>
      transact(async (work) =>
        showPlatformTenant(await suspendTenant({ mail }, work, params.tenantId, body.reason)),
      ),
  }),
  ofTenant.post("/superadmin/tenants/{tenantId}/unsuspend", "unsuspendTenant", {
    summary: "Lift a suspension",
    description: "SUSPENDED becomes APPROVED; its OWNERs are notified by mail.",
    outside: ({ transact, mail }, { params }) =>
      transact(async (work) => showPlatformTenant(await unsuspendTenant({ mail }, work, params.tenantId))),
  }),
];

export const superadminTenantRoutes = [...reading, ...changing];
