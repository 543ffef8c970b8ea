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
    /** The reason of a rejection or suspension. */
    approvalReason: p.text().nullable(),
    approvalRequestedAt: p.datetime(3).nullable(),
    plan: p.text().$type<Plan>(),
    /** Limits set by a super-admin besides the plan's. */
    planOverrides: p.json<Partial<PlanLimits>>(),
    /** The exact redirect URIs that OAuth may use. */
    redirectUris: p.array(),
    /** The custom domain that links with tokens in its mails lead to while it is ACTIVE. */
    linkDomain: p.text().nullable(),
    /** Members without a second factor may do nothing but set one up. */
    secondFactorRequired: p.boolean(),
    /** Set when the OWNER deleted it: from then on all its requests are rejected. */
    deleteAfter: p.datetime(3).nullable(),
    deletedAt: p.datetime(3).nullable(),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
  },
});

/** The customer account: owns users and projects. */
export class Tenant extends TenantSchema.class {}

TenantSchema.setClass(Tenant);
