import { defineEntity, p } from "@mikro-orm/core";
import type { Plan, PlanLimits } from "../../kernel/plans.ts";
import type { ApprovalStatus } from "../../kernel/caller.ts";

export const TenantSchema = defineEntity({
  name: "Tenant",
  tableName: "tenants",
  properties: {
    id: p.uuid().primary(),
    name: p.text(),
    approvalStatus: p.text().$type<ApprovalStatus>(),
    /** Why it was rejected or suspended. */
    approvalReason: p.text().nullable(),
    approvalRequestedAt: p.datetime(3).nullable(),
    plan: p.text().$type<Plan>(),
    /** Limits that a super-admin has set besides the plan's. */
    planOverrides: p.json<Partial<PlanLimits>>(),
    /** Where OAuth may send people back to, exactly. */
    redirectUris: p.array(),
    /** Set when the OWNER deleted it: after this nothing of it answers any more. */
    deleteAfter: p.datetime(3).nullable(),
    deletedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});

/** The customer account: owns users and projects. */
export class Tenant extends TenantSchema.class {}

TenantSchema.setClass(Tenant);
