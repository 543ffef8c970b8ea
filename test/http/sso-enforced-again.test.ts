import assert from "node:assert/strict";
import { sql } from "kysely";
import { forgetSessions } from "../../src/domain/accounts/auth/sessions.ts";
import { setPlan } from "../../src/domain/accounts/tenants/approval.ts";
import type { Plan } from "../../src/domain/kernel/caller.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { type AppFactor, withTotp } from "../support/mfa/second-factor.ts";
import { startHostileProvider } from "../support/providers/hostile-provider.ts";
import { aBrowser, told } from "../support/providers/oauth.ts";
import { aVerifiedDomain, putSso, ssoUrl, startSsoServer } from "../support/sso/server.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

const PASSWORD = "Correct-horse-7";

type Glass = { userId: string; email: string; factor: AppFactor };

describe("single sign-on that goes on being enforced", () => {
  let glass: Glass;

  const aGlass = async (): Promise<Glass> => {
    const member = await aMember(api, tenant.tenantId, "OWNER");
    const passwordHash = await api.app.passwords.hash(PASSWORD);
    await api.app.transact(({ db }) =>
      sql`update users set password_hash = ${passwordHash} where id = ${member.userId}::uuid`.execute(db),
    );
    return { ...member, factor: await withTotp(api, { ...member, password: PASSWORD }) };
  };
  const config = (more: object = {}) => ({
    provider: "OIDC",
    displayName: "Acme",
    oidcIssuer: provider.issuer,
    oidcClientId: provider.clientId,
    autoProvision: true,
    breakGlassUserId: glass.userId,
    ...more,
  });
  const signIn = async (): Promise<string> => {
    provider.person = { sub: tenant.email, email: tenant.email, email_verified: true };
    const answer = told((await aBrowser().go(ssoUrl(server, tenant))).at);
    assert("access_token" in answer, answer["error_description"]);
    return answer["access_token"];
  };
  const enforce = async (): Promise<string> => {
    const token = await signIn();
    must(await putSso(server, { token }, config({ enforceSso: true })), 200);
    return token;
  };
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

  const api = madeOnce(startApp);
  const server = madeOnce(() => startSsoServer(api));
  const provider = madeOnce(() => startHostileProvider());
  const tenant = madeForEach(() => aTenant(server));
  beforeEach(async () => {
    await aVerifiedDomain(server, tenant);
    glass = await aGlass();
    const { clientSecret: oidcClientSecret } = provider;
    must(await putSso(server, tenant, config({ oidcClientSecret })), 200);
  });
  after(async () => {
    await server.close();
    await provider.close();
  });

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
