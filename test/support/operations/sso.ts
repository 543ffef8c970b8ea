import { sql } from "kysely";
import { randomUUID } from "node:crypto";
import { LIMITS } from "../../../src/domain/accounts/rate-limits/limiter.ts";
import { OAuthError } from "../../../src/domain/accounts/oauth/provider.ts";
import { keepFailure } from "../../../src/domain/accounts/sso/clients.ts";
import { aTenant, startApp, type Tenant } from "../app/app.ts";
import { must } from "../http/client.ts";
import type { Side } from "../app/sides.ts";
import { aDomain, aSigningKey, samlConfig } from "../sso/server.ts";
import { sharedTxtServer } from "../sso/txt-server.ts";
import type { Call, Known } from "./operations.ts";
import { User } from "../../../src/domain/accounts/auth/user.ts";
import { newId } from "../../../src/domain/kernel/ids.ts";
import { issueCode } from "../../../src/domain/accounts/oauth/sign-in.ts";
import { hashRandomSecret, newRandomSecret } from "../../../src/domain/accounts/auth/one-time-secrets.ts";
import { Invitation } from "../../../src/domain/accounts/team/accept.ts";
import { Tenant as TenantRow } from "../../../src/domain/accounts/tenants/tenant.ts";
import { aMember } from "../app/member.ts";

/** Registered with the shared test app. */
export const SWEPT_REDIRECT_URI = "https://console.test.example/swept";

/** That of every OWNER of a side; who has none is not asked. */
const PASSWORD = "Correct-horse-7";

const start = `/auth/oauth/github?redirect_uri=${encodeURIComponent(SWEPT_REDIRECT_URI)}`;

const aCode = async ({ userId }: Tenant): Promise<string> => {
  const { app } = await startApp();
  return app.transact(async (work) =>
    issueCode(work, await work.em.findOneOrFail(User, { id: userId }), "github"),
  );
};

/** Every member of the tenant has two, so that each can lose one. */
const giveIdentities = async ({ tenantId }: Tenant): Promise<void> => {
  const { app } = await startApp();
  await app.transact(async ({ db, em }) => {
    for (const { id } of await em.find(User, { tenantId })) {
      for (const provider of ["google", "github"]) {
        await sql`
          insert into identities (id, tenant_id, user_id, provider, subject, created_at)
          values (${newId()}::uuid, ${tenantId}::uuid, ${id}::uuid, ${provider}, ${newId()}, now())
          on conflict do nothing`.execute(db);
      }
    }
  });
};

export const oauthOperations: Record<string, Known> = {
  listOAuthProviders: { call: () => ({ path: "/auth/oauth/providers" }) },
  startOAuth: { call: () => ({ path: `${start}&flow=signup&response_mode=code&invitation_token=x` }) },
  // Without the cookie of a browser that began the flow there is none.
  completeOAuth: { success: 400, call: () => ({ path: "/auth/oauth/github/callback?state=x&code=y" }) },
  exchangeOAuthCode: {
    call: async ({ tenant }) => ({ path: "/auth/oauth/exchange", body: { code: await aCode(tenant) } }),
  },
  listIdentities: { call: () => ({ path: "/auth/oauth/identities" }) },
  startOAuthLink: {
    call: () => ({
      path: "/auth/oauth/github/link",
      body: { redirect_uri: SWEPT_REDIRECT_URI, response_mode: "code", currentPassword: PASSWORD },
    }),
  },
  unlinkIdentity: {
    call: async ({ tenant }) => {
      await giveIdentities(tenant);
      return { path: "/auth/oauth/github", body: { currentPassword: PASSWORD } };
    },
  },
};

const { cert } = aSigningKey();
const SSO = "/enterprise/sso";
/** Nobody answers there. */
const samlBody = () => samlConfig(cert, { samlSsoUrl: "http://127.0.0.1:9/sso" });

/** Gives the tenant a SAML provider. */
const configured = async ({ tenant: { token } }: Side): Promise<void> => {
  const api = await startApp();
  must(await api.put(`/api/v1${SSO}`, samlBody(), { token }), 200);
};

/** The path of a domain whose TXT record is there. */
const aClaim = async ({ tenant }: Side): Promise<string> => {
  const api = await startApp();
  await api.sql`
    delete from sso_domains where tenant_id = ${tenant.tenantId}::uuid and id not in (
      select id from sso_domains where tenant_id = ${tenant.tenantId}::uuid
      order by created_at desc, id desc limit 30)`;
  const options = { token: tenant.token };
  const made = must(await api.post(`/api/v1${SSO}/domains`, { domain: aDomain() }, options), 201);
  (await sharedTxtServer()).records.set(made.txtName, [[made.txtValue]]);
  return `${SSO}/domains/${made.id}`;
};

const withSso =
  (call: (side: Side) => { path: string; body?: unknown }): Known["call"] =>
  async (side) => {
    await configured(side);
    return call(side);
  };

export const ssoOperations: Record<string, Known> = {
  getSso: { call: withSso(() => ({ path: SSO })) },
  putSso: { call: () => ({ path: SSO, body: samlBody() }) },
  deleteSso: { call: withSso(() => ({ path: SSO })) },
  testSso: {
    call: async (side) => {
      await configured(side);
      const { app } = await startApp();
      await app.limiter.reset(LIMITS.ssoTest, side.tenant.tenantId);
      return { path: `${SSO}/test`, body: {} };
    },
  },
  listSsoFailures: {
    call: async ({ tenant: { tenantId } }) => {
      const { app } = await startApp();
      const failure = new OAuthError("provider_error", "The provider refused the sign-in", undefined, {
        text: "the browser came back with x",
        isAnybodys: true,
      });
      const report = (): void => undefined;
      await keepFailure({ ...app, report }, { tenantId, failure, email: "ada@acme.com" });
      return { path: `${SSO}/failures` };
    },
  },
  listSsoDomains: {
    call: async (side) => {
      await aClaim(side);
      return { path: `${SSO}/domains` };
    },
  },
  addSsoDomain: {
    call: async (side) => {
      await aClaim(side);
      return { path: `${SSO}/domains`, body: { domain: aDomain() } };
    },
  },
  verifySsoDomain: { call: async (side) => ({ path: `${await aClaim(side)}/verify`, body: {} }) },
  removeSsoDomain: { call: async (side) => ({ path: await aClaim(side) }) },
  discoverSso: { call: () => ({ path: "/auth/sso/discover", body: { email: "ada@acme.com" } }) },
  startSso: {
    call: withSso(({ tenant: { tenantId } }) => ({
      path: `/auth/sso/${tenantId}?response_mode=code&redirect_uri=${encodeURIComponent(SWEPT_REDIRECT_URI)}`,
    })),
  },
  // Without the cookie of a browser that began the sign-in there is none.
  completeSsoOidc: {
    success: 400,
    call: withSso(({ tenant: { tenantId } }) => ({
      path: `/auth/sso/oidc/${tenantId}/callback?state=x&code=y`,
    })),
  },
  // Sweeps send JSON, and this takes a form; test/http/sso-saml.test.ts sends that.
  completeSsoSaml: {
    success: 415,
    call: withSso(({ tenant: { tenantId } }) => ({
      path: `/auth/sso/saml/${tenantId}/acs`,
      body: { SAMLResponse: "YQ==", RelayState: "x" },
    })),
  },
  getSsoSamlMetadata: {
    call: ({ tenant: { tenantId } }) => ({ path: `/auth/sso/saml/${tenantId}/metadata` }),
  },
};

const anEmail = (): string => `${randomUUID()}@example.com`;

/** An invitation by the OWNER, with the token that its mail would have. */
export const anInvitation = async (
  { tenantId, userId }: Pick<Tenant, "tenantId" | "userId">,
  given: Partial<Pick<Invitation, "email" | "role" | "expiresAt" | "invitedBy" | "status">> = {},
): Promise<{ id: string; token: string; email: string }> => {
  const { app } = await startApp();
  const [token, email] = [newRandomSecret(), given.email ?? anEmail()];
  const id = newId();
  await app.transact(async ({ em, now }) => {
    em.create(Invitation, {
      id,
      tenantId,
      email,
      role: "VIEWER",
      tokenHash: hashRandomSecret(token),
      status: "PENDING",
      invitedBy: userId,
      expiresAt: new Date(now.getTime() + 86_400_000),
      sentAt: now,
      createdAt: now,
      updatedAt: now,
      ...given,
    });
  });
  return { id, token, email };
};

/** Writes into a tenant's row what no operation would. */
export const putTenant = async (tenantId: string, row: Partial<TenantRow>): Promise<void> => {
  const { app } = await startApp();
  await app.transact(async ({ em }) => {
    Object.assign(await em.findOneOrFail(TenantRow, { id: tenantId }), row);
  });
};

/** What is done to a whole tenant is done to one of its own. */
const ofOwnTenant = async (
  path: string,
  prepare: (tenant: Tenant) => Promise<unknown> = async () => undefined,
): Promise<Call> => {
  const tenant = await aTenant(await startApp());
  const body = await prepare(tenant);
  return { path, token: tenant.token, ...(body === undefined ? {} : { body }) };
};

const member = async ({ tenant }: Side): Promise<string> =>
  (await aMember(await startApp(), tenant.tenantId, "VIEWER")).userId;
const invitation = async ({ tenant }: Side): Promise<string> => (await anInvitation(tenant)).id;

const ofInvitation = (suffix = ""): Known => ({
  call: async (side) => ({ path: `/team/invitations/${await invitation(side)}${suffix}`, body: {} }),
});

export const teamOperations: Record<string, Known> = {
  getTenant: { call: () => ({ path: "/tenant" }) },
  updateTenant: {
    call: () => ({ path: "/tenant", body: { name: "A studio" } }),
    also: [() => ({ redirectUris: ["https://example.com/in"] })],
  },
  deleteTenant: {
    call: () => ofOwnTenant("/tenant", async ({ password }) => ({ currentPassword: password })),
  },
  restoreTenant: {
    call: () =>
      ofOwnTenant("/tenant/restore", async ({ tenantId }) => {
        await putTenant(tenantId, { deleteAfter: new Date(Date.now() + 86_400_000) });
        return {};
      }),
  },
  requestApproval: {
    call: () =>
      ofOwnTenant("/tenant/approval-request", async ({ tenantId }) => {
        await putTenant(tenantId, { approvalStatus: "REJECTED" });
        return {};
      }),
  },
  transferOwnership: {
    call: () =>
      ofOwnTenant("/tenant/transfer-ownership", async ({ tenantId, password }) => {
        const { userId } = await aMember(await startApp(), tenantId, "ADMIN");
        return { userId, currentPassword: password };
      }),
    foreign: async (own, other) => {
      const userId = other.tenant.tenantId === own.tenant.tenantId ? randomUUID() : other.tenant.userId;
      const body = { userId, currentPassword: own.tenant.password };
      return [{ path: "/tenant/transfer-ownership", body }];
    },
  },

  listMembers: { call: () => ({ path: "/team/members?role=MEMBER&status=ACTIVE&sort=name&order=asc" }) },
  addMember: { call: () => ({ path: "/team/members", body: { email: anEmail(), role: "MEMBER" } }) },
  getMember: { call: async (side) => ({ path: `/team/members/${await member(side)}` }) },
  updateMember: {
    call: async (side) => ({
      path: `/team/members/${await member(side)}`,
      body: { role: "DESIGNER", status: "SUSPENDED" },
    }),
  },
  removeMember: { call: async (side) => ({ path: `/team/members/${await member(side)}` }) },
  removeMemberByQuery: {
    call: async (side) => ({ path: `/team/members?id=${await member(side)}` }),
    foreign: async (own, other) =>
      other.tenant.tenantId === own.tenant.tenantId
        ? []
        : [{ path: `/team/members?id=${await member(other)}` }],
  },
  leaveTeam: {
    call: async ({ tenant }) => ({
      path: "/team/leave",
      body: {},
      token: (await aMember(await startApp(), tenant.tenantId, "VIEWER")).token,
    }),
  },

  listInvitations: { call: () => ({ path: "/team/invitations?status=PENDING" }) },
  createInvitation: {
    call: () => ({ path: "/team/invitations", body: { email: anEmail(), role: "ADMIN" } }),
  },
  resendInvitation: ofInvitation("/resend"),
  revokeInvitation: ofInvitation(),
  revokeInvitationByQuery: {
    call: async (side) => ({ path: `/team/invitations?id=${await invitation(side)}` }),
    foreign: async (own, other) =>
      other.tenant.tenantId === own.tenant.tenantId
        ? []
        : [{ path: `/team/invitations?id=${await invitation(other)}` }],
  },
  readInvitation: {
    call: async ({ tenant }) => ({
      path: `/team/invitations/accept?token=${(await anInvitation(tenant)).token}`,
    }),
  },
  acceptInvitation: {
    call: async ({ tenant }) => {
      const { token } = await anInvitation(tenant);
      return {
        path: "/team/invitations/accept",
        body: { token, name: "Ada Lovelace", password: "Brass-Lantern-58" },
      };
    },
  },

  listAuditLog: {
    call: () => ({
      path: "/audit-log?action=project.created&from=2026-01-01T00:00:00Z&to=2100-01-01T00:00:00Z",
    }),
  },
};
