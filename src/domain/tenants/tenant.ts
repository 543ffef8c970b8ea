import { defineEntity, p } from "@mikro-orm/core";

export const APPROVAL_STATUSES = ["PENDING", "APPROVED", "REJECTED", "SUSPENDED"] as const;
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

export const PLANS = ["FREE", "STARTER", "PRO", "ENTERPRISE"] as const;
export type Plan = (typeof PLANS)[number];

export const TenantSchema = defineEntity({
  name: "Tenant",
  tableName: "tenants",
  properties: {
    id: p.uuid().primary(),
    name: p.text(),
    approvalStatus: p.text().$type<ApprovalStatus>(),
    plan: p.text().$type<Plan>(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});
/** The customer account: owns users and projects. */
export class Tenant extends TenantSchema.class {}
TenantSchema.setClass(Tenant);
