import { z } from "zod";
import {
  type Actor,
  ADMINS,
  APPROVAL_STATUSES,
  EVERY_ROLE,
  FEATURES,
  PLANS,
  userOf,
} from "../../domain/kernel/caller.ts";
import { AUDIT_ORDERS, listAudit } from "../../domain/accounts/audit/audit.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { group } from "../route.ts";
import type { App } from "../../app.ts";
import { REDIRECT_URI_MAX } from "../../domain/accounts/oauth/provider.ts";
import { transferOwnership } from "../../domain/accounts/team/members.ts";
import { requestApproval } from "../../domain/accounts/tenants/approval.ts";
import { DOMAIN_MAX } from "../../domain/accounts/sso/domain-name.ts";
import {
  deleteTenant,
  REDIRECT_URIS_MAX,
  restoreTenant,
  showTenant,
  updateTenant,
} from "../../domain/accounts/tenants/tenants.ts";
import { getTenant, Name, type Tenant } from "../../domain/accounts/tenants/tenant.ts";
import type { Work } from "../../domain/kernel/work.ts";
import {
  type ChangeProof,
  requireChangeProof,
  requireRecentProof,
} from "../../domain/accounts/mfa/step-up.ts";
import { pageReply, sortedBy, Span } from "./bodies.ts";
import { LimitsBody } from "./billing.ts";
import { OwnPassword, proofParts, selfOf } from "./mfa-login.ts";

const ACTORS = "user:<id>, key:<id>, admin:<id>, platform-token:<id>, anonymous or system";

const ACTOR_MAX = 100;

export const AuditQuery = PageQuery.extend({
  ...sortedBy(AUDIT_ORDERS),
  action: z.string().min(1).max(100).optional().meta({ example: "member.role_changed" }),
  actor: z.string().min(1).max(ACTOR_MAX).optional().meta({ description: ACTORS }),
  ...Span.shape,
});

export const AuditEntryBody = z
  .object({
    id: z.uuid(),
    tenantId: z.uuid().nullable(),
    actor: z.string().meta({ description: ACTORS }),
    action: z.string().meta({ example: "member.role_changed" }),
    target: z.object({ type: z.string(), id: z.string() }),
    ip: z.string().meta({ description: "Empty for the server itself, and for the platform's people" }),
    requestId: z.string(),
    data: z.record(z.string(), z.unknown()),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "AuditEntry" });

const byAdmins = group({ tag: "Tenant", project: "none", access: { roles: ADMINS } });

export const auditLogRoutes = [
  byAdmins.get("/audit-log", "listAuditLog", {
    summary: "List the tenant's audit log",
    description: "Newest first; entries are never changed or deleted.",
    query: AuditQuery,
    response: pageBody(AuditEntryBody),
    run: async (work, { caller, query }) =>
      pageReply(await listAudit(work, userOf(caller).tenantId, query), "entries", query),
  }),
];

const TenantBody = z
  .object({
    id: z.uuid(),
    name: z.string(),
    plan: z.enum(PLANS),
    approvalStatus: z.enum(APPROVAL_STATUSES),
    approvalReason: z.string().optional().meta({ description: "Why it was rejected or suspended" }),
    limits: LimitsBody,
    features: z.array(z.enum(FEATURES)),
    usage: z.object({
      projects: z.int(),
      members: z.int().meta({ description: "Members and pending invitations" }),
    }),
    redirectUris: z.array(z.string()).meta({ description: "Where OAuth may send people back to" }),
    linkDomain: z
      .string()
      .nullable()
      .meta({
        description:
          "Custom domain that links with tokens in mails lead to while it is ACTIVE; null or otherwise: " +
          "CONSOLE_URL",
      }),
    requireSecondFactor: z
      .boolean()
      .meta({ description: "Members without a second factor may do nothing but set one up" }),
    deleteAfter: z.iso.datetime().optional().meta({ description: "When its deletion becomes final" }),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "Tenant" });

const common = group({ tag: "Tenant", project: "none" });
const byOwner = common.with({ access: { roles: ["OWNER"] }, response: TenantBody });

/** Returns the caller's tenant after a change. */
const answerTenant = async (work: Work, change: Promise<Tenant>) => {
  const tenant = await change;
  await work.em.flush();
  return showTenant(work, tenant);
};

const proveAgain = (app: App, actor: Actor, { currentPassword }: ChangeProof): Promise<void> =>
  requireChangeProof(proofParts(app, actor), selfOf(actor), { currentPassword });

export const tenantRoutes = [
  common.get("/tenant", "getTenant", {
    summary: "Get the tenant",
    description: "With the limits of its plan and how much of them is used. Open while it is suspended.",
    access: { roles: EVERY_ROLE, needs: { suspended: true } },
    response: TenantBody,
    run: async (work, { caller }) => showTenant(work, await getTenant(work, userOf(caller).tenantId)),
  }),
  common.patch("/tenant", "updateTenant", {
    summary: "Change the tenant",
    description:
      "redirectUris replaces the whole list and is an OWNER's to change; OAuth compares them character by " +
      "character. linkDomain, an ACTIVE custom domain, is an OWNER's as well: links to set a password lead " +
      "there. requireSecondFactor is an OWNER's too, who needs a second factor themselves. An OWNER who has " +
      "one has proved it within 10 minutes before a change of these.",
    access: { roles: ADMINS },
    body: z.object({
      name: Name.optional(),
      redirectUris: z
        .array(z.string().max(REDIRECT_URI_MAX))
        .max(REDIRECT_URIS_MAX)
        .optional()
        .meta({ example: ["https://console.example.com/signed-in"] }),
      linkDomain: z.string().max(DOMAIN_MAX).nullable().optional().meta({ example: "play.acme.com" }),
      requireSecondFactor: z.boolean().optional(),
    }),
    example: { name: "Analytical Games" },
    response: TenantBody,
    prepare: async (app, { actor, body }) => {
      // Where codes of sign-in and links to set a password go, and who has to prove a second factor.
      const { redirectUris, linkDomain, requireSecondFactor } = body;
      const isSensitive = [redirectUris, linkDomain, requireSecondFactor].some((one) => one !== undefined);
      if (isSensitive) await requireRecentProof(app, selfOf(actor));
    },
    run: (work, { caller, body }, { config: { isProduction } }) =>
      answerTenant(work, updateTenant(work, { actor: userOf(caller), isProduction }, body)),
  }),
  byOwner.delete("/tenant", "deleteTenant", {
    summary: "Delete the tenant in 30 days",
    description:
      "Until `deleteAfter` all goes on and POST /tenant/restore takes it back; then keys and sessions end. " +
      "With a second factor, prove it with POST /auth/mfa/verify first, unless you did in the last 10 " +
      "minutes; with neither password nor factor, sign in within 10 minutes before.",
    body: z.object({ currentPassword: OwnPassword }),
    example: { currentPassword: "Engine-No-1" },
    prepare: (app, { actor, body }) => proveAgain(app, actor, body),
    run: (work, { caller }, app) => answerTenant(work, deleteTenant(app, work, userOf(caller).tenantId)),
  }),
  byOwner.post("/tenant/restore", "restoreTenant", {
    summary: "Take the deletion of the tenant back",
    run: (work, { caller }) => answerTenant(work, restoreTenant(work, userOf(caller).tenantId)),
  }),
  byOwner.post("/tenant/approval-request", "requestApproval", {
    summary: "Ask for approval again",
    description: "For a rejected tenant, once a day.",
    run: (work, { caller }) => answerTenant(work, requestApproval(work, userOf(caller).tenantId)),
  }),
  byOwner.post("/tenant/transfer-ownership", "transferOwnership", {
    summary: "Make another member OWNER in your place",
    description:
      "You become ADMIN. With a second factor, prove it with POST /auth/mfa/verify first, unless you did " +
      "in the last 10 minutes; with neither password nor factor, sign in within 10 minutes before.",
    body: z.object({
      userId: z.uuid().meta({ description: "An active member" }),
      currentPassword: OwnPassword,
    }),
    example: { userId: "0197c2a0-0000-7000-8000-000000000001", currentPassword: "Engine-No-1" },
    prepare: (app, { actor, body }) => proveAgain(app, actor, body),
    run: async (work, { caller, body }) => {
      await transferOwnership(work, userOf(caller), body.userId);
      return answerTenant(work, getTenant(work, userOf(caller).tenantId));
    },
  }),
];
