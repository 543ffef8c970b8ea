import { z } from "zod";
import { group } from "../route.ts";
import {
  createPlatformToken,
  getAdmin,
  GRANTABLE_SCOPES,
  listPlatformTokens,
  revokePlatformToken,
  showAdmin,
  showPlatformToken,
} from "../../domain/accounts/admin/admins.ts";
import {
  adminLogin,
  adminLogout,
  changeAdminPassword,
  completeAdminLogin,
} from "../../domain/accounts/admin/login.ts";
import {
  ADMIN_SCOPES,
  adminOf,
  ADMINS,
  APPROVAL_STATUSES,
  MEMBER_STATUSES,
  PLANS,
  ROLES,
  userOf,
} from "../../domain/kernel/caller.ts";
import {
  changeTenantPlan,
  countOfTenant,
  disableUser,
  enableUser,
  getPlatformTenant,
  getPlatformUser,
  listPlatformTenants,
  listPlatformUsers,
  platformStats,
  showPlatformTenant,
  showPlatformUser,
  STATS_COUNT_MAX,
} from "../../domain/accounts/admin/tenants.ts";
import { resetUserMfa } from "../../domain/accounts/mfa/factors.ts";
import { pageBody, PageQuery } from "../../domain/kernel/paging.ts";
import { IsoTime } from "../../domain/kernel/iso-time.ts";
import { Name } from "../../domain/accounts/tenants/tenant.ts";
import { audit, listAudit } from "../../domain/accounts/audit/audit.ts";
import { decideTenant, PLAN_LIMIT_MAX } from "../../domain/accounts/tenants/approval.ts";
import { followPlan } from "../../domain/delivery/plan-change.ts";
import { limitsBody } from "./billing.ts";
import { CurrentPassword, NewPassword } from "./registration.ts";
import { Accepted, accepted, countsOf, Flag, Order, pageReply, Search, Span } from "./bodies.ts";
import { ChallengeAnswerBody, LoginInput, proofParts } from "./mfa-login.ts";
import { AuditEntryBody, AuditQuery } from "./tenant.ts";
import { EMAIL_MAX } from "../../domain/accounts/email/address.ts";
import {
  EMAIL_STATUSES,
  listEmailLogs,
  resendEmail,
  showEmailLog,
  showEmailLogInFull,
} from "../../domain/accounts/email/mail.ts";
import { MAIL_TEMPLATES } from "../../domain/accounts/email/templates/templates.ts";

const REASON_MAX = 500;

/** Properties shared by all super-admin operations. */
export const superadmin = group({ tag: "Super-admin", project: "none" });
/** Only for people, not for platform tokens. */
export const byPeople = superadmin.with({ access: { admin: "*" } });
/** As `byPeople`, also those who must set up a second factor first. */
export const PEOPLE_ENROLLING = { admin: "*", needs: { enrolling: true } } as const;

export const AdminSignedInBody = z
  .object({
    accessToken: z.string().meta({ description: "For the header Authorization: Bearer" }),
    tokenType: z.literal("Bearer"),
    expiresIn: z.int().meta({ description: "Seconds; there is no refresh", example: 3_600 }),
    mfaEnrolmentRequired: z
      .boolean()
      .meta({ description: "The token is good for nothing but setting up a second factor" }),
    admin: z.object({ id: z.uuid(), email: z.string(), name: z.string() }),
  })
  .meta({ id: "SuperAdminLogin" });

export const ReasonBody = z.object({
  reason: z.string().trim().min(1).max(REASON_MAX).meta({ example: "Fake address" }),
});

const AdminBody = z
  .object({
    id: z.uuid(),
    email: z.string(),
    name: z.string(),
    mfaEnabled: z.boolean(),
    lastLoginAt: z.iso.datetime().nullable(),
    disabledAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "SuperAdmin" });

const signingIn = superadmin.with({
  access: "public",
  errors: ["UNAUTHORIZED"],
  response: AdminSignedInBody,
});

export const superadminAuthRoutes = [
  signingIn.post("/superadmin/auth/login", "superadminLogin", {
    summary: "Log in as a super-admin",
    description:
      "Super-admins are made with `laurel admin create` and are no users of any tenant. With a second " +
      "factor the password alone answers 401 with the reason MFA_REQUIRED, and `challenge` for POST " +
      "/superadmin/auth/login/mfa; with `mfaCode` one call does both. Without one, where the server " +
      "requires it, the token is good for nothing but setting one up.",
    body: LoginInput,
    example: { email: "root@example.com", password: "Engine-No-1" },
    outside: (app, { body, actor }) => adminLogin(proofParts(app, actor), { ...body, ip: actor.ip }),
  }),
  signingIn.post("/superadmin/auth/login/mfa", "completeSuperadminLogin", {
    summary: "Complete a super-admin's login by the second factor",
    description: "As POST /auth/login/mfa.",
    body: ChallengeAnswerBody,
    example: { challengeToken: "header.payload.signature", code: "492039" },
    outside: (app, { body, actor }) => completeAdminLogin(proofParts(app, actor), { ...body, ip: actor.ip }),
  }),
  superadmin.post("/superadmin/auth/logout", "superadminLogout", {
    summary: "End every login of yours",
    access: PEOPLE_ENROLLING,
    takesNoIdempotencyKey: true,
    response: Accepted,
    run: (work, { caller }) => accepted(adminLogout(work, adminOf(caller).adminId)),
  }),
  byPeople.post("/superadmin/auth/change-password", "superadminChangePassword", {
    summary: "Change your password",
    description: "Ends every login of yours; the answer is a new one.",
    takesNoIdempotencyKey: true,
    body: z.object({ currentPassword: CurrentPassword, newPassword: NewPassword }),
    example: { currentPassword: "Engine-No-1", newPassword: "Copper-Kettle-91" },
    response: AdminSignedInBody,
    outside: (app, { caller, body, actor }) =>
      changeAdminPassword(app, { adminId: adminOf(caller).adminId, ip: actor.ip }, body),
  }),
  superadmin.get("/superadmin/me", "getSuperadmin", {
    summary: "Get yourself",
    access: PEOPLE_ENROLLING,
    response: AdminBody,
    run: async (work, { caller }) => showAdmin(await getAdmin(work, adminOf(caller).adminId)),
  }),
];

const UserBody = z
  .object({
    id: z.uuid(),
    tenantId: z.uuid(),
    email: z.string(),
    name: z.string(),
    role: z.enum(ROLES),
    status: z.enum(MEMBER_STATUSES),
    emailVerified: z.boolean(),
    mfaEnabled: z.boolean(),
    disabledAt: z.iso.datetime().nullable(),
    lastLoginAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "PlatformUser" });

const ofUser = byPeople.with({ response: UserBody });

const PlatformTokenBody = z
  .object({
    id: z.uuid(),
    name: z.string(),
    scopes: z.array(z.enum(ADMIN_SCOPES)),
    status: z.enum(["ACTIVE", "EXPIRED", "REVOKED"]),
    createdBy: z.string().meta({ example: "admin:0199a3c0-0000-7000-8000-000000000001" }),
    lastUsedAt: z.iso.datetime().nullable().meta({ description: "Exact to a minute" }),
    expiresAt: z.iso.datetime().nullable(),
    revokedAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
  })
  .meta({ id: "PlatformToken" });

const StatsBody = z
  .object({
    tenants: z.object({
      total: z.int(),
      byApprovalStatus: countsOf(APPROVAL_STATUSES),
      byPlan: countsOf(PLANS),
    }),
    users: z.int(),
    projects: z.int().meta({ description: "Without sandboxes" }),
    activeKeys: z.int(),
    mail: z.object({
      queued: z.int().meta({ description: "Not yet sent" }),
      failedLastDay: z.int().meta({ description: "Given up, of those asked for in 24 hours" }),
    }),
    generatedAt: z.iso.datetime(),
  })
  .meta({ id: "PlatformStats" });

const ShownLimit = z.union([z.int(), z.literal("unlimited")]).optional();

const TenantBody = z
  .object({
    id: z.uuid(),
    name: z.string(),
    approvalStatus: z.enum(APPROVAL_STATUSES),
    approvalReason: z.string().nullable().meta({ description: "Why it was rejected or suspended" }),
    approvalRequestedAt: z.iso.datetime().nullable(),
    plan: z.enum(PLANS),
    planOverrides: limitsBody(() => ShownLimit),
    limits: limitsBody(() => ShownLimit).meta({
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
      limitsBody((name) =>
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
const ofTenant = byPeople.with({ params: TenantParams, response: TenantBody });

export const superadminRoutes = [
  byPeople.get("/superadmin/stats", "getPlatformStats", {
    summary: "Count the platform's tenants, users and data",
    description: `Without what is deleted. A count stops at ${STATS_COUNT_MAX}.`,
    response: StatsBody,
    run: (work) => platformStats(work),
  }),
  byPeople.get("/superadmin/audit-log", "listPlatformAuditLog", {
    summary: "List the audit log of all tenants and the platform",
    description: "Newest first; entries are never changed or deleted.",
    query: AuditQuery.extend({
      tenantId: z.uuid().optional(),
    }),
    response: pageBody(AuditEntryBody),
    run: async (work, { query: { tenantId, ...query } }) =>
      pageReply(await listAudit(work, tenantId, query), "entries", query),
  }),
  byPeople.get("/superadmin/tenants", "listPlatformTenants", {
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
  byPeople.get("/superadmin/tenants/{tenantId}", "getPlatformTenant", {
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
  ofTenant.patch("/superadmin/tenants/{tenantId}", "updatePlatformTenant", {
    summary: "Change a tenant's plan and limits",
    description:
      "Requests feel it within 5 seconds. What is beyond a lower limit stays; webhooks without room are " +
      "paused. Of another plan its OWNERs and ADMINs are told by mail.",
    body: TenantChange,
    example: { plan: "PRO", planOverrides: { members: "unlimited" } },
    run: async (work, { params, body }, app) => {
      const { plan: from } = await getPlatformTenant(work, params.tenantId);
      const tenant = await changeTenantPlan(work, params.tenantId, {
        plan: body.plan,
        limits: body.planOverrides,
      });
      await work.em.flush();
      await followPlan(work, app.mail, { tenant, from });
      return showPlatformTenant(tenant);
    },
  }),
  ofTenant.post("/superadmin/tenants/{tenantId}/approve", "approveTenant", {
    summary: "Approve a tenant",
    description: "PENDING or REJECTED becomes APPROVED; its OWNERs are notified by mail.",
    run: async (work, { params }, { mail }) =>
      showPlatformTenant(await decideTenant(work, mail, { ...params, decision: "approve" })),
  }),
  ofTenant.post("/superadmin/tenants/{tenantId}/reject", "rejectTenant", {
    summary: "Reject a tenant",
    description: "PENDING becomes REJECTED; its OWNERs are notified of the reason by mail.",
    body: ReasonBody,
    example: { reason: "Fake address" },
    run: async (work, { params, body }, { mail }) =>
      showPlatformTenant(await decideTenant(work, mail, { ...params, ...body, decision: "reject" })),
  }),
  ofTenant.post("/superadmin/tenants/{tenantId}/suspend", "suspendTenant", {
    summary: "Suspend a tenant",
    description:
      "APPROVED becomes SUSPENDED: within 5 seconds its keys and most of what its people may do answer 403 " +
      "TENANT_SUSPENDED. Its OWNERs are notified of the reason by mail.",
    body: ReasonBody,
    example: { reason: "Unpaid" },
    run: async (work, { params, body }, { mail }) =>
      showPlatformTenant(await decideTenant(work, mail, { ...params, ...body, decision: "suspend" })),
  }),
  ofTenant.post("/superadmin/tenants/{tenantId}/unsuspend", "unsuspendTenant", {
    summary: "Lift a suspension",
    description: "SUSPENDED becomes APPROVED; its OWNERs are notified by mail.",
    run: async (work, { params }, { mail }) =>
      showPlatformTenant(await decideTenant(work, mail, { ...params, decision: "unsuspend" })),
  }),
  byPeople.post("/superadmin/tokens", "createPlatformToken", {
    summary: "Create a platform token",
    description:
      "For machines, such as a CI job that syncs blog posts. `token` is shown only here; send it as " +
      "Authorization: Bearer.",
    body: z.object({
      name: Name.meta({ example: "Site build" }),
      scopes: z.array(z.enum(GRANTABLE_SCOPES)).min(1).max(GRANTABLE_SCOPES.length),
      expiresAt: IsoTime.nullish(),
    }),
    example: { name: "Site build", scopes: ["blog:sync"] },
    status: 201,
    response: PlatformTokenBody.extend({
      token: z.string().meta({ example: "svc_admin_..." }),
    }),
    run: async (work, { body: { expiresAt, ...body } }, app) => {
      const { token, secret } = await createPlatformToken(work, app.apiKeys, {
        ...body,
        expiresAt: expiresAt == null ? undefined : new Date(expiresAt),
      });
      return { ...showPlatformToken(token, work.now), token: secret };
    },
  }),
  byPeople.get("/superadmin/tokens", "listPlatformTokens", {
    summary: "List platform tokens",
    description: "Newest first, at most 500; those that have ended too.",
    response: z.array(PlatformTokenBody),
    run: async (work) => (await listPlatformTokens(work)).map((token) => showPlatformToken(token, work.now)),
  }),
  byPeople.delete("/superadmin/tokens/{tokenId}", "revokePlatformToken", {
    summary: "Revoke a platform token",
    description: "For good; within 5 seconds no process accepts it.",
    params: z.object({ tokenId: z.string() }),
    response: PlatformTokenBody,
    run: async (work, { params }) =>
      showPlatformToken(await revokePlatformToken(work, params.tokenId), work.now),
  }),
  byPeople.get("/superadmin/users", "listPlatformUsers", {
    summary: "List the users of all tenants",
    query: PageQuery.extend({
      sort: z.enum(["createdAt", "email", "lastLoginAt"]).default("createdAt"),
      order: Order,
      tenantId: z.uuid().optional(),
      status: z.enum(MEMBER_STATUSES).optional(),
      disabled: Flag,
      search: Search.meta({ description: "Part of the email address" }),
    }),
    response: pageBody(UserBody),
    run: async (work, { query: { disabled: isDisabled, ...query } }) =>
      pageReply(await listPlatformUsers(work, { ...query, isDisabled }), "rows", query, showPlatformUser),
  }),
  ofUser.get("/superadmin/users/{userId}", "getPlatformUser", {
    summary: "Get a user of any tenant",
    run: async (work, { params }) => showPlatformUser(await getPlatformUser(work, params.userId)),
  }),
  ofUser.post("/superadmin/users/{userId}/disable", "disableUser", {
    summary: "Shut a user out of the platform",
    description:
      "Ends their sessions within 5 seconds, also those of a tenant's last OWNER. API keys they made stay.",
    body: ReasonBody,
    example: { reason: "Stolen account" },
    run: async (work, { params, body }) =>
      showPlatformUser(await disableUser(work, params.userId, body.reason)),
  }),
  ofUser.post("/superadmin/users/{userId}/enable", "enableUser", {
    summary: "Let a user in again",
    description: "Sessions of before stay ended.",
    run: async (work, { params }) => showPlatformUser(await enableUser(work, params.userId)),
  }),
  ofUser.post("/superadmin/users/{userId}/reset-mfa", "resetUserMfa", {
    summary: "Reset a user's second factor",
    description:
      "For somebody who has lost it and whom no OWNER or ADMIN of their tenant can help. Removes their " +
      "authenticator app, passkeys and recovery codes, ends their sessions, and tells them by mail.",
    body: ReasonBody,
    example: { reason: "Lost phone; called back on the number of the contract" },
    run: async (work, { params, body }, app) =>
      showPlatformUser(await resetUserMfa(work, app.mail, params.userId, body.reason)),
  }),
];

const EmailLogBody = z
  .object({
    id: z.uuid(),
    to: z.string().meta({ example: "ada@example.com" }),
    template: z.enum(MAIL_TEMPLATES),
    subject: z.string(),
    status: z.enum(EMAIL_STATUSES).meta({
      description:
        "QUEUED waits for its first or another try. SUPPRESSED was not sent: the address has refused mail " +
        "within 30 days, or a newer mail took its place",
    }),
    attempts: z.int(),
    error: z.string().optional().meta({ description: "Why the last try failed" }),
    createdAt: z.iso.datetime(),
    sentAt: z.iso.datetime().optional().meta({ description: "When the mail server took it" }),
    userId: z.uuid().optional().meta({ description: "Whom it is about" }),
  })
  .meta({ id: "EmailLog" });

/** The filters of a list of mails, for tenants and super-admins. */
const EmailLogQuery = PageQuery.extend({
  sort: z.enum(["createdAt"]).default("createdAt"),
  order: Order,
  status: z.enum(EMAIL_STATUSES).optional(),
  template: z.enum(MAIL_TEMPLATES).optional(),
  email: z.string().min(1).max(EMAIL_MAX).optional().meta({ description: "Whole address that it goes to" }),
  ...Span.shape,
});

const byAdmins = group({ tag: "Email", project: "none", access: { roles: ADMINS } });

export const emailLogRoutes = [
  byAdmins.get("/email-logs", "listEmailLogs", {
    summary: "List mails to your team",
    description: "Newest first: recipients and status, without the content.",
    query: EmailLogQuery,
    response: pageBody(EmailLogBody),
    run: async (work, { caller, query }) => {
      const { tenantId } = userOf(caller);
      return pageReply(await listEmailLogs(work, { ...query, tenantId }, query), "rows", query, showEmailLog);
    },
  }),
];

const FullEmailLogBody = EmailLogBody.extend({
  tenantId: z.uuid().optional().meta({ description: "Absent for mail of the platform itself" }),
  providerMessageId: z.string().optional(),
  smtpResponse: z.string().optional().meta({ description: "The mail server's last response" }),
}).meta({ id: "PlatformEmailLog" });

export const superadminEmailRoutes = [
  byPeople.get("/superadmin/email-logs", "listPlatformEmailLogs", {
    summary: "List the mails of the platform",
    description: "Newest first: recipients and status, without the content.",
    query: EmailLogQuery.extend({ tenantId: z.uuid().optional() }),
    response: pageBody(FullEmailLogBody),
    run: async (work, { query }) =>
      pageReply(await listEmailLogs(work, query, query), "rows", query, showEmailLogInFull),
  }),
  byPeople.post("/superadmin/email-logs/{emailLogId}/resend", "resendEmail", {
    summary: "Send a mail again",
    description:
      "One that has failed within the last 7 days, or waits for another try: at once, also to an address " +
      "that has refused mail.",
    response: FullEmailLogBody,
    run: async (work, { params }, app) => {
      const log = await resendEmail(work, params.emailLogId);
      const { id, tenantId, template, to } = log;
      await audit(work, {
        action: "email.resent",
        target: { type: "email", id },
        tenantId: tenantId ?? null,
        data: { template, to },
      });
      work.afterCommit(() => app.queue.wake("send-mail", "*"));
      return showEmailLogInFull(log);
    },
  }),
];
