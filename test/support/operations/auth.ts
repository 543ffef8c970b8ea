import { sql } from "kysely";
import { randomUUID } from "node:crypto";
import { startSession } from "../../../src/domain/accounts/auth/sessions.ts";
import { User } from "../../../src/domain/accounts/auth/user.ts";
import { aTenant, startApp, type Tenant } from "../app/app.ts";
import { aMember, aMemberWithPassword, type Member } from "../app/member.ts";
import type { Call, Known } from "./operations.ts";
import { isOneTenant, type Side } from "../app/sides.ts";
import { issueUserToken, type UserTokenPurpose } from "../../../src/domain/accounts/auth/one-time-secrets.ts";
import { apiKey, projectFields, unique } from "./bodies.ts";
import { anAddress, must } from "../http/client.ts";
import { aName } from "../domains/server.ts";
import { addCustomer } from "../../../src/domain/accounts/billing/customer.ts";
import { sharedFakeStripe, signStripe } from "../providers/fake-stripe.ts";
import { putTenant, SWEPT_REDIRECT_URI } from "./sso.ts";
import { blockAddress } from "../../../src/domain/accounts/rate-limits/ip-blocks.ts";

const PASSWORD = "Brass-Lantern-58";

/** A member of their own for each call: these end sessions or change a password. */
const someone = async ({ tenantId }: Tenant): Promise<Member> =>
  aMember(await startApp(), tenantId, "VIEWER");

/** The id of a further session of a user. */
const aSession = async (userId: string): Promise<string> => {
  const { app } = await startApp();
  const signedIn = await app.transact(async (work) => {
    const user = await work.em.findOneOrFail(User, { id: userId });
    return startSession(work, app.tokens, user, { method: "PASSWORD" });
  });
  return (await app.tokens.verifyAccess(signedIn.accessToken)).sid;
};

const pathOf = (sessionId: string): string => `/auth/sessions/${sessionId}`;

export const authOperations: Record<string, Known> = {
  refreshSession: {
    call: async ({ tenant }) => ({
      path: "/auth/refresh",
      body: { refreshToken: (await someone(tenant)).refreshToken },
    }),
  },
  logout: {
    call: async ({ tenant }) => ({
      path: "/auth/logout",
      body: {},
      token: (await someone(tenant)).token,
    }),
  },
  getAccount: { call: () => ({ path: "/auth/me" }) },
  updateAccount: { call: () => ({ path: "/auth/me", body: { name: "Ada Lovelace" } }) },
  changePassword: {
    call: async ({ tenant }) => ({
      path: "/auth/change-password",
      body: { currentPassword: PASSWORD, newPassword: "Copper-Kettle-91" },
      token: (
        await aMemberWithPassword(await startApp(), tenant.tenantId, { role: "VIEWER", password: PASSWORD })
      ).token,
    }),
  },
  listSessions: { call: () => ({ path: "/auth/sessions" }) },
  revokeSession: {
    call: async ({ tenant }) => {
      const { userId, token } = await someone(tenant);
      return { path: pathOf(await aSession(userId)), token };
    },
    foreign: async (own, other) => {
      const users = [(await someone(own.tenant)).userId, (await someone(other.tenant)).userId];
      if (!isOneTenant(own, other)) users.push(other.tenant.userId);
      return Promise.all(users.map(async (userId) => ({ path: pathOf(await aSession(userId)) })));
    },
  },
};

export const emailOperations: Record<string, Known> = {
  listEmailLogs: { call: () => ({ path: "/email-logs?status=QUEUED&template=verify-email" }) },
};

/** A token as the mail has it, of a fresh member of the tenant. */
const mailedToken = async ({ tenantId }: Tenant, purpose: UserTokenPurpose): Promise<string> => {
  const api = await startApp();
  const { userId, email } = await aMember(api, tenantId, "VIEWER");
  return api.app.transact((work) => issueUserToken(work, { userId, tenantId, purpose, email, seconds: 60 }));
};

/** As after a sign-up through a provider that told no name, for every member. */
const forgetProfiles = async ({ tenantId }: Tenant): Promise<void> => {
  const { app } = await startApp();
  await app.transact(({ db }) =>
    sql`update users set profile_completed = false where tenant_id = ${tenantId}::uuid`.execute(db),
  );
};

export const registrationOperations: Record<string, Known> = {
  getCaptcha: { call: () => ({ path: "/auth/captcha" }) },
  forgotPassword: {
    call: () => ({ path: "/auth/forgot-password", body: { email: `${unique("ada")}@example.com` } }),
  },
  resetPassword: {
    call: async ({ tenant }) => ({
      path: "/auth/reset-password",
      body: { token: await mailedToken(tenant, "RESET_PASSWORD"), password: PASSWORD },
    }),
  },
  verifyEmail: {
    call: async ({ tenant }) => ({
      path: "/auth/verify-email",
      body: { token: await mailedToken(tenant, "VERIFY_EMAIL") },
    }),
  },
  resendVerification: {
    call: () => ({ path: "/auth/resend-verification", body: { email: `${unique("ada")}@example.com` } }),
  },
  completeProfile: {
    call: async ({ tenant }) => {
      await forgetProfiles(tenant);
      return { path: "/auth/complete-profile", body: { name: "Ada Lovelace" } };
    },
  },
};

const ofKeys = (side: Side): string => `/projects/${side.tenant.projectId}/api-keys`;

/** An operation on one key; another project's key is not found under the own project. */
const ofKey = (suffix = "", body?: unknown): Known => ({
  call: async (side) => ({ path: `${ofKeys(side)}/${await side.apiKey()}${suffix}`, body }),
  foreign: async (own, other) => [{ path: `${ofKeys(own)}/${await other.apiKey()}${suffix}`, body }],
});

/** Projects, their sandboxes and their API keys. */
export const keyOperations: Record<string, Known> = {
  listProjects: { call: () => ({ path: "/projects" }) },
  createProject: { call: () => ({ path: "/projects", body: { name: "A game", ...projectFields } }) },
  getProject: { call: ({ tenant }) => ({ path: `/projects/${tenant.projectId}` }) },
  updateProject: {
    call: ({ tenant }) => ({ path: `/projects/${tenant.projectId}`, body: projectFields }),
    also: [() => ({ allowedOrigins: ["https://game.example.com"], name: "Another name" })],
  },
  deleteProject: { call: async (side) => ({ path: `/projects/${await side.project()}` }) },
  createSandbox: { call: async (side) => ({ path: `/projects/${await side.project()}/sandbox`, body: {} }) },
  syncSandbox: {
    call: async (side) => ({ path: `/projects/${await side.project()}/sandbox/sync`, body: {} }),
  },
  getSandboxClock: { call: async (side) => ({ path: `${await side.sandbox()}/clock` }) },
  setSandboxClock: {
    call: async (side) => ({ path: `${await side.sandbox()}/clock`, body: { reset: true } }),
    also: [() => ({ advance: "PT1S" })],
  },

  listApiKeys: { call: (side) => ({ path: ofKeys(side) }) },
  createApiKey: { call: (side) => ({ path: ofKeys(side), body: apiKey() }) },
  getApiKey: ofKey(),
  updateApiKey: ofKey("", { ...apiKey(), environment: undefined, name: "Renamed" }),
  rotateApiKey: ofKey("/rotate", { gracePeriodSeconds: 60, expiresAt: null }),
  revokeApiKey: ofKey(),
};

const DOMAINS = "/enterprise/domains";

/** Makes room for one more, and leaves the newest: calls that are to come may name them. */
const makeRoom = async ({ tenant: { tenantId } }: Side): Promise<void> => {
  const api = await startApp();
  await api.app.transact(async ({ db }) => {
    await sql`update tenants set plan_overrides = plan_overrides || '{"customDomains": null}'
      where id = ${tenantId}::uuid`.execute(db);
    await sql`delete from custom_domains where id in (
      select id from custom_domains where tenant_id = ${tenantId}::uuid
      order by id desc offset 60)`.execute(db);
  });
};

/** The id of a domain. */
const aDomain = async (side: Side): Promise<string> => {
  const api = await startApp();
  await makeRoom(side);
  const { token } = side.tenant;
  return must(await api.post(`/api/v1${DOMAINS}`, { domain: aName() }, { token }), 201).id;
};

export const domainOperations: Record<string, Known> = {
  listCustomDomains: {
    call: async (side) => {
      await aDomain(side);
      return { path: DOMAINS };
    },
  },
  addCustomDomain: {
    success: 201,
    call: async (side) => {
      await makeRoom(side);
      return { path: DOMAINS, body: { domain: aName() } };
    },
  },
  getCustomDomain: { call: async (side) => ({ path: `${DOMAINS}/${await aDomain(side)}` }) },
  verifyCustomDomain: {
    call: async (side) => ({ path: `${DOMAINS}/${await aDomain(side)}/verify`, body: {} }),
  },
  removeCustomDomain: { call: async (side) => ({ path: `${DOMAINS}/${await aDomain(side)}` }) },
  removeCustomDomainById: { call: async (side) => ({ path: `${DOMAINS}?id=${await aDomain(side)}` }) },
};

/** A tenant of its own that has begun to buy. */
const aBuyer = async (): Promise<Tenant> => {
  const [api, stripe] = [await startApp(), await sharedFakeStripe()];
  const tenant = await aTenant(api);
  const customerId = `cus_swept${randomUUID().replaceAll("-", "")}`;
  stripe.customers.set(customerId, { id: customerId, object: "customer", email: tenant.email });
  await api.app.transact((work) => addCustomer(work, { tenantId: tenant.tenantId, customerId }));
  await putTenant(tenant.tenantId, { plan: "FREE" });
  return tenant;
};

const byBuyer = async (path: string, body?: unknown): Promise<Call> => {
  const { token } = await aBuyer();
  return { path, token, ...(body === undefined ? {} : { body }) };
};

const order = {
  plan: "PRO",
  interval: "monthly",
  successUrl: SWEPT_REDIRECT_URI,
  cancelUrl: SWEPT_REDIRECT_URI,
};
const event = {
  id: "evt_swept",
  object: "event",
  type: "customer.updated",
  data: { object: { object: "customer" } },
};

export const billingOperations: Record<string, Known> = {
  listBillingPlans: { call: () => ({ path: "/billing/plans" }) },
  getBillingUsage: { call: () => ({ path: "/billing/usage" }) },
  getBillingSubscription: { call: () => ({ path: "/billing/subscription" }) },
  listBillingInvoices: { call: () => ({ path: "/billing/invoices?limit=5" }) },
  createBillingCheckout: { call: () => byBuyer("/billing/checkout", order) },
  createBillingPortal: { call: () => byBuyer("/billing/portal", { returnUrl: SWEPT_REDIRECT_URI }) },
  receiveBillingEvent: {
    call: () => ({
      path: "/billing/webhook",
      body: event,
      headers: { "Stripe-Signature": signStripe(JSON.stringify(event), Math.floor(Date.now() / 1_000)) },
    }),
  },
};

const ofAddress = (suffix = "", body: unknown = {}): Known => ({
  call: () => ({ path: `/admin/rate-limits/ip/${anAddress()}${suffix}`, body }),
});

const aBlockedAddress = async (): Promise<string> => {
  const { app } = await startApp();
  const network = anAddress();
  const block = { reason: "Swept", source: "MANUAL", seconds: 60, createdBy: "system" } as const;
  await app.transact((work) => blockAddress(work, { network, ...block }));
  return network;
};

export const rateLimitOperations: Record<string, Known> = {
  getIpRateLimit: ofAddress("?bucket=login"),
  blockIp: ofAddress("/block", { reason: "Swept", durationSeconds: 60 }),
  unblockIp: {
    call: async () => ({ path: `/admin/rate-limits/ip/${await aBlockedAddress()}/block` }),
  },
  resetIpRateLimit: ofAddress("/reset", { bucket: "global" }),
  listIpBlocks: { call: () => ({ path: "/admin/rate-limits/blocked" }) },
};
