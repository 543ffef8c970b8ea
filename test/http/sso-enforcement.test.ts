import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { forgetSessions } from "../../src/domain/accounts/auth/sessions.ts";
import { Session } from "../../src/domain/accounts/auth/tokens.ts";
import { tellOfCertificates } from "../../src/domain/accounts/sso/domains.ts";
import { setPlan } from "../../src/domain/accounts/tenants/approval.ts";
import type { Plan } from "../../src/domain/kernel/caller.ts";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { aMember, aMemberWithPassword, type Member } from "../support/app/member.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Answer, must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { aMailTo, mailedTo, tokenIn } from "../support/mail/mailbox.ts";
import { type AppFactor, withTotp } from "../support/mfa/second-factor.ts";
import { aBrowser, told } from "../support/providers/oauth.ts";
import {
  aSigningKey,
  aVerifiedDomain,
  oidcConfig,
  putSso,
  samlConfig,
  ssoServer,
  ssoStage,
  ssoUrl,
} from "../support/sso/server.ts";

const PASSWORD = "Correct-horse-7";

type Glass = Member & { factor: AppFactor };

/** Tenants whose OWNER signs in through their provider; the break-glass user is another OWNER. */
const enforcementStage = () => {
  const { api, server, provider } = ssoStage();
  const tenant = madeForEach(() => aTenant(server));
  const aPerson = (role: "OWNER" | "VIEWER"): Promise<Member> =>
    aMemberWithPassword(api, tenant.tenantId, { role, password: PASSWORD });
  const aGlass = async (): Promise<Glass> => {
    const member = await aPerson("OWNER");
    return { ...member, factor: await withTotp(api, { ...member, password: PASSWORD }) };
  };
  const glass = madeForEach(aGlass);
  const config = (more: object = {}) =>
    oidcConfig(provider, {
      oidcClientSecret: undefined,
      autoProvision: true,
      breakGlassUserId: glass.userId,
      ...more,
    });
  const claimed = { domain: "" };
  beforeEach(async () => {
    claimed.domain = await aVerifiedDomain(server, tenant);
    const { clientSecret: oidcClientSecret } = provider;
    must(await putSso(server, tenant, config({ oidcClientSecret })), 200);
  });
  const signIn = async (email = tenant.email): Promise<string> => {
    provider.person = { sub: email, email, email_verified: true };
    const answer = told((await aBrowser().go(ssoUrl(server, tenant))).at);
    assert("access_token" in answer, JSON.stringify(answer));
    return answer["access_token"];
  };
  const enforce = async (): Promise<string> => {
    const token = await signIn();
    must(await putSso(server, { token }, config({ enforceSso: true })), 200);
    return token;
  };
  return { api, server, tenant, glass, claimed, aPerson, aGlass, config, signIn, enforce };
};

describe("single sign-on that goes on being enforced", () => {
  const { api, server, tenant, glass, aGlass, config, enforce } = enforcementStage();
  const logIn = async ({ email, factor }: Glass): Promise<string> => {
    const mfaCode = await factor.code();
    const body = { email, password: PASSWORD, mfaCode };
    return must(await server.post("/api/v1/auth/login", body), 200).accessToken;
  };
  const sees = async (token: string) => (await server.get("/api/v1/auth/me", { token })).status;
  const setPlanTo = async (plan: Plan) => {
    await api.app.transact((work) => setPlan(work, tenant.tenantId, { plan }));
    forgetSessions();
  };

  it("ends the sessions of a break-glass OWNER in whose place another one comes", async () => {
    const other = await aGlass();
    const token = await enforce();
    const before = await logIn(glass);
    must(await putSso(server, { token }, config({ enforceSso: true, displayName: "Renamed" })), 200);
    assert.equal(await sees(before), 200);
    must(await putSso(server, { token }, config({ enforceSso: true, breakGlassUserId: other.userId })), 200);
    assert.deepEqual([await sees(before), await sees(token)], [401, 200]);
    assert.equal(await sees(await logIn(other)), 200);
    const again = { email: glass.email, password: PASSWORD, mfaCode: await glass.factor.code() };
    assertError(await server.post("/api/v1/auth/login", again), 403, "SSO_REQUIRED");
  });

  it("ends the sessions that began while the plan had no single sign-on, when it has again", async () => {
    const token = await enforce();
    await setPlanTo("PRO");
    const body = { email: tenant.email, password: tenant.password };
    const meanwhile = must(await server.post("/api/v1/auth/login", body), 200).accessToken;
    await setPlanTo("STARTER");
    assert.equal(await sees(meanwhile), 200);
    await setPlanTo("ENTERPRISE");
    assert.deepEqual([await sees(meanwhile), await sees(token)], [401, 200]);
    assertError(await server.post("/api/v1/auth/login", body), 403, "SSO_REQUIRED");
  });

  it("ends none where nothing is enforced", async () => {
    await setPlanTo("PRO");
    const body = { email: tenant.email, password: tenant.password };
    const meanwhile = must(await server.post("/api/v1/auth/login", body), 200).accessToken;
    await setPlanTo("ENTERPRISE");
    assert.equal(await sees(meanwhile), 200);
  });
});

describe("enforcement of single sign-on", () => {
  const { api, server, tenant, glass, claimed, aPerson, config, signIn, enforce } = enforcementStage();
  const login = (email: string, password = PASSWORD, more: object = {}) =>
    server.post("/api/v1/auth/login", { email, password, ...more });

  it("is switched on only in a session that has just begun through this provider", async () => {
    const on = (token: string) => putSso(server, { token }, config({ enforceSso: true }));
    assertError(await on(tenant.token), 403, "REAUTHENTICATION_REQUIRED");
    const token = await signIn();
    await api.sql`
      update sessions set created_at = created_at - interval '11 minutes'
      where user_id = ${tenant.userId}::uuid and method = 'SSO'`;
    assertError(await on(token), 403, "REAUTHENTICATION_REQUIRED");
    assert.equal(must(await on(await signIn()), 200).enforceSso, true);
  });

  it("needs a break-glass OWNER of the tenant with a second factor", async () => {
    const token = await signIn();
    const on = (breakGlassUserId: unknown) =>
      putSso(server, { token }, config({ enforceSso: true, breakGlassUserId }));
    assertError(await on(undefined), 422, "SSO_CONFIG_INVALID");
    assertError(await on(tenant.userId), 422, "SSO_CONFIG_INVALID");
    assertError(await on((await aPerson("VIEWER")).userId), 422, "SSO_CONFIG_INVALID");
    assertError(await on((await aTenant(server)).userId), 404);
    assertError(await on(randomUUID()), 404);
  });

  it("ends all sessions but those of single sign-on, and refuses every other sign-in", async () => {
    const viewer = await aPerson("VIEWER");
    const token = await enforce();
    const status = async (of: string) => (await server.get("/api/v1/auth/me", { token: of })).status;
    assert.deepEqual(
      [
        await status(token),
        await status(tenant.token),
        await status(viewer.token),
        await status(glass.token),
      ],
      [200, 401, 401, 401],
    );
    const { refreshToken } = viewer;
    assertError(await server.post("/api/v1/auth/refresh", { refreshToken }), 401, "REFRESH_TOKEN_REVOKED");
    assertError(await login(viewer.email), 403, "SSO_REQUIRED");
    assertError(await login(tenant.email), 403, "SSO_REQUIRED");
    const found = must(await server.post("/api/v1/auth/sso/discover", { email: `x@${claimed.domain}` }), 200);
    assert.equal(found.ssoRequired, true);
  });

  it("tells of itself only after a right password", async () => {
    await enforce();
    assertError(await login(tenant.email, "Wrong-password-1"), 401, "INVALID_CREDENTIALS");
    assertError(await login(`${randomUUID()}@example.com`), 401, "INVALID_CREDENTIALS");
  });

  it("leaves API keys as they are", async () => {
    await enforce();
    must(await server.get("/api/v1/players", { key: tenant.key }), 200);
  });

  it("refuses new passwords: by links that were mailed before, and mails no more", async () => {
    const [viewer, another] = [await aPerson("VIEWER"), await aPerson("VIEWER")];
    const forgot = async (email: string): Promise<string[]> => {
      must(await server.post("/api/v1/auth/forgot-password", { email }), 200);
      return (await mailedTo(api.app, email)).filter((template) => template === "reset-password");
    };
    assert.deepEqual(await forgot(viewer.email), ["reset-password"]);
    const token = tokenIn(await aMailTo(viewer.email, /reset/i));
    await enforce();
    const reset = { token, password: "Another-horse-8" };
    assertError(await server.post("/api/v1/auth/reset-password", reset), 403, "SSO_REQUIRED");
    assertError(await login(viewer.email, reset.password), 401, "INVALID_CREDENTIALS");
    assert.deepEqual(await forgot(another.email), []);
  });

  it("refuses who would join otherwise: with an invitation, and waiting", async () => {
    const token = await enforce();
    const email = `${randomUUID()}@${claimed.domain}`;
    must(await server.post("/api/v1/team/invitations", { email, role: "ADMIN" }, { token }), 201);
    const invitationToken = tokenIn(await aMailTo(email, /./));
    const body = { email, password: PASSWORD, name: "Somebody" };
    const register = (more: object) => server.post("/api/v1/auth/register", { ...body, ...more });
    assertError(await register({ invitationToken }), 403, "SSO_REQUIRED");
    const link = `/api/v1/team/invitations/accept?token=${invitationToken}`;
    assert.equal(must(await server.get(link), 200).authUrl, `/auth/sso/${tenant.tenantId}`);
    assertError(await register({ tenantId: tenant.tenantId }), 403, "SSO_REQUIRED");
    await signIn(email);
  });

  it("lets the break-glass OWNER in, with the second factor alone, and tells all OWNERs", async () => {
    await enforce();
    assertError(await login(glass.email), 401, "MFA_REQUIRED");
    assertError(await login(glass.email, PASSWORD, { mfaCode: "000000" }), 401, "MFA_CODE_INVALID");
    const { accessToken } = must(
      await login(glass.email, PASSWORD, { mfaCode: await glass.factor.code() }),
      200,
    );
    must(await server.get("/api/v1/enterprise/sso", { token: accessToken }), 200);
    assert.ok((await auditOf(api, glass.userId)).some(({ action }) => action === "sso.break_glass_used"));
    await aMailTo(tenant.email, /past single sign-on/);
    // Who has a session of theirs can switch it off.
    must(await putSso(server, { token: accessToken }, config()), 200);
    must(await login(tenant.email), 200);
  });

  it("is no way in for a break-glass OWNER whose second factor is gone", async () => {
    await enforce();
    await api.sql`update users set mfa_enabled = false where id = ${glass.userId}::uuid`;
    assertError(await login(glass.email), 403, "SSO_REQUIRED");
  });

  it("keeps the break-glass OWNER: not demoted, suspended, removed, nor without second factor", async () => {
    const other = await aPerson("OWNER");
    const token = await enforce();
    await api.app.transact(({ em }) =>
      em.nativeUpdate(Session, { userId: other.userId }, { method: "SSO", revokedAt: null }),
    );
    forgetSessions();
    const member = `/api/v1/team/members/${glass.userId}`;
    assertError(await server.patch(member, { role: "ADMIN" }, { token }), 409, "INVALID_STATE");
    assertError(await server.patch(member, { status: "SUSPENDED" }, { token }), 409, "INVALID_STATE");
    assertError(await server.delete(member, { token }), 409, "INVALID_STATE");
    const reset = { currentPassword: PASSWORD };
    const proof = { token: other.token };
    assertError(await server.post(`${member}/reset-mfa`, reset, proof), 409, "INVALID_STATE");
    const { accessToken } = must(
      await login(glass.email, PASSWORD, { mfaCode: await glass.factor.code() }),
      200,
    );
    const disable = { currentPassword: PASSWORD, code: await glass.factor.code() };
    assertError(
      await server.post("/api/v1/auth/mfa/totp/disable", disable, { token: accessToken }),
      409,
      "INVALID_STATE",
    );
  });

  it("is switched off before another provider is put; secrets change at any time", async () => {
    const token = await enforce();
    const { cert } = aSigningKey();
    const other = samlConfig(cert, { enforceSso: true, breakGlassUserId: glass.userId });
    assertError(await putSso(server, { token }, other), 409, "INVALID_STATE");
    const renamed = config({ enforceSso: true, oidcClientSecret: "rotated", displayName: "New name" });
    assert.equal(must(await putSso(server, { token }, renamed), 200).displayName, "New name");
    assertError(await login(tenant.email), 403, "SSO_REQUIRED");
  });

  it("ends with the plan, the configuration, or by its status, so that nobody is locked out", async () => {
    await enforce();
    await putOnPlan(api, tenant.tenantId, "PRO");
    must(await login(tenant.email), 200);
    await putOnPlan(api, tenant.tenantId, "ENTERPRISE");
    forgetSessions();
    assertError(await login(tenant.email), 403, "SSO_REQUIRED");
    const { accessToken } = must(
      await login(glass.email, PASSWORD, { mfaCode: await glass.factor.code() }),
      200,
    );
    must(await server.delete("/api/v1/enterprise/sso", { token: accessToken }), 200);
    must(await login(tenant.email), 200);
  });

  it("touches no other tenant", async () => {
    await enforce();
    const other = await aTenant(server);
    must(await login(other.email, other.password), 200);
  });

  it("an OWNER with a second factor proves it before each change", async () => {
    const { accessToken } = must(
      await login(glass.email, PASSWORD, { mfaCode: await glass.factor.code() }),
      200,
    );
    await api.app.transact(({ em }) =>
      em.nativeUpdate(Session, { userId: glass.userId }, { mfaAt: new Date(0) }),
    );
    const of = { token: accessToken };
    assertError(await putSso(server, of, config()), 403, "REAUTHENTICATION_REQUIRED");
    assertError(await server.delete("/api/v1/enterprise/sso", of), 403, "REAUTHENTICATION_REQUIRED");
    must(await server.post("/api/v1/auth/mfa/verify", { code: await glass.factor.code() }, of), 200);
    must(await putSso(server, of, config()), 200);
  });
});

describe("certificates of identity providers that expire", () => {
  const { api, server } = ssoServer();
  const DAY_MS = 86_400_000;

  const run = () => api.app.transact((work) => tellOfCertificates(work, api.app.mail));
  const runIn = (days: number) =>
    api.app.transact((work) => {
      const now = new Date(work.now.getTime() + days * DAY_MS);
      return tellOfCertificates({ ...work, now }, api.app.mail);
    });
  const queued = async ({ tenantId }: Tenant): Promise<number> => {
    const rows = await api.sql`
      select 1 from email_logs where tenant_id = ${tenantId}::uuid
        and template = 'sso-certificate-expiring'`;
    return rows.length;
  };

  it("are told of 30, 7 and 1 days before, once each, however often the job runs", async () => {
    const tenant = await aTenant(server);
    must(await putSso(server, tenant, samlConfig(aSigningKey(40).cert)), 200);
    const counts: number[] = [];
    for (const days of [0, 10.5, 20, 33.5, 35, 39.5, 39.9, 41]) {
      await Promise.all([runIn(days), runIn(days)]);
      counts.push(await queued(tenant));
    }
    assert.deepEqual(counts, [0, 1, 1, 2, 2, 3, 3, 3]);
  });

  it("are told of again after they were replaced, and not while it is disabled", async () => {
    const tenant = await aTenant(server);
    must(await putSso(server, tenant, samlConfig(aSigningKey(5).cert, { status: "DISABLED" })), 200);
    await run();
    assert.equal(await queued(tenant), 0);
    must(await putSso(server, tenant, samlConfig(aSigningKey(5).cert)), 200);
    await run();
    assert.equal(await queued(tenant), 1);
    await aMailTo(tenant.email, /certificate of Acme expires/);
    must(await putSso(server, tenant, samlConfig(aSigningKey(6).cert + aSigningKey(300).cert)), 200);
    await run();
    assert.equal(await queued(tenant), 2);
  });
});

describe("an OWNER without a password", () => {
  let owner: Member;
  let other: Member;
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  beforeEach(async () => {
    // As single sign-on makes them.
    owner = await aMember(api, tenant.tenantId, "OWNER");
    other = await aMember(api, tenant.tenantId, "ADMIN");
    await withTotp(api, { ...other, password: "" });
  });

  const age = (userId: string) =>
    api.sql`
      update sessions set mfa_at = mfa_at - interval '10 minutes',
        created_at = created_at - interval '10 minutes'
      where user_id = ${userId}::uuid`;
  const calls: Record<string, (token: string, body?: object) => Promise<Answer>> = {
    "resets a member's second factor": (token, body = {}) =>
      api.post(`/api/v1/team/members/${other.userId}/reset-mfa`, body, { token }),
    "deletes the tenant": (token, body = {}) => api.delete("/api/v1/tenant", { token, body }),
    "makes another member OWNER": (token, body = {}) =>
      api.post("/api/v1/tenant/transfer-ownership", { userId: other.userId, ...body }, { token }),
  };

  for (const [what, call] of Object.entries(calls)) {
    it(`${what} after a sign-in of the last 10 minutes`, async () => {
      must(await call(owner.token), 200);
    });

    it(`${what} by no older session`, async () => {
      await age(owner.userId);
      assertError(await call(owner.token), 403, "REAUTHENTICATION_REQUIRED");
    });

    it(`${what} by an older one that has proved a second factor in the last 10 minutes`, async () => {
      const factor = await withTotp(api, { ...owner, password: "" });
      await age(owner.userId);
      assertError(await call(owner.token), 403, "REAUTHENTICATION_REQUIRED");
      const { token } = owner;
      must(await api.post("/api/v1/auth/mfa/verify", { code: await factor.code() }, { token }), 200);
      must(await call(token), 200);
    });
  }

  it("is also one whose password counts no more, since single sign-on is enforced", async () => {
    const call = calls["resets a member's second factor"]!;
    assertError(await call(tenant.token), 400);
    must(await putSso(api, tenant, samlConfig(aSigningKey().cert)), 200);
    await api.sql`
      update sso_configurations set enforce_sso = true, break_glass_user_id = ${owner.userId}::uuid
      where tenant_id = ${tenant.tenantId}::uuid`;
    const wrong = { currentPassword: "Wrong-horse-7" };
    assertError(await call(tenant.token, wrong), 403, "INVALID_CREDENTIALS");
    must(await call(tenant.token), 200);
    await age(tenant.userId);
    assert.equal((await call(tenant.token)).status, 403);
  });
});
