import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Session } from "../../src/domain/accounts/auth/tokens.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { aTenant } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aBrowser, CONSOLE, told } from "../support/providers/oauth.ts";
import { type Person, startOpenIdProvider } from "../support/providers/openid-provider.ts";
import { aVerifiedDomain, oidcConfig, putSso, ssoServer, ssoUrl } from "../support/sso/server.ts";
import { madeForEach } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const TOKENS = ["access_token", "expires_in", "refresh_token", "token_type"];

describe("single sign-on by OpenID Connect", () => {
  let domain: string;

  const config = (more: object = {}) => oidcConfig(provider, more);
  const configure = async (more: object = {}) => must(await putSso(server, tenant, config(more)), 200);
  const aPerson = (claims: Partial<Person> = {}) => {
    const sub = randomUUID();
    const person = { sub, email: `${sub}@${domain}`, name: "Grace Hopper", ...claims };
    provider.people.set(sub, person);
    return person;
  };
  const come = (sub: string, parameters = {}) => aBrowser(sub).go(ssoUrl(server, tenant, parameters));
  const tell = async (sub: string, parameters = {}) => told((await come(sub, parameters)).at);
  const user = (email: string) => api.app.transact(({ em }) => em.findOne(User, { email }));

  const { api, server } = ssoServer();
  const tenant = madeForEach(() => aTenant(server));
  const provider = madeForEach(() =>
    startOpenIdProvider(`${server.url}/api/v1/auth/sso/oidc/${tenant.tenantId}/callback`),
  );
  beforeEach(async () => {
    domain = await aVerifiedDomain(server, tenant);
  });
  afterEach(() => provider.close());

  it("makes a member of somebody new, with the default role, and signs them in from then on", async () => {
    await configure({ autoProvision: true, defaultRole: "DESIGNER" });
    const { sub, email } = aPerson();
    const { at } = await come(sub);
    assert(at.href.startsWith(CONSOLE));
    const first = told(at);
    assert.deepEqual(Object.keys(first).toSorted(), TOKENS);
    const me = must(await server.get("/api/v1/auth/me", { token: first["access_token"]! }), 200);
    assert.deepEqual(
      [
        me.user.email,
        me.user.name,
        me.user.role,
        me.user.tenantId,
        me.user.emailVerified,
        me.user.hasPassword,
      ],
      [email, "Grace Hopper", "DESIGNER", tenant.tenantId, true, false],
    );
    provider.people.set(sub, { sub, email: `renamed@${domain}` });
    const again = await tell(sub);
    assert("access_token" in again);
    const sessions = await api.app.transact(({ em }) => em.find(Session, { userId: me.user.id }));
    assert.deepEqual(pluck(sessions, "method"), ["SSO", "SSO"]);
  });

  it("asks for the address and the name where the ID token has neither", async () => {
    await configure({ autoProvision: true });
    const { sub, email } = aPerson({ isTerse: true });
    assert("access_token" in (await tell(sub)));
    assert.equal((await user(email))?.name, "Grace Hopper");
  });

  it("takes a word about the address from userinfo where the ID token has the address alone", async () => {
    await configure();
    const member = await aMember(api, tenant.tenantId, "ADMIN");
    const { sub } = aPerson({ email: member.email, email_verified: true, isQuiet: true });
    assert("access_token" in (await tell(sub)));
    const another = await aMember(api, tenant.tenantId, "ADMIN");
    const { email } = another;
    // Of another address it says nothing about this one.
    const liar = aPerson({
      email: "liar@example.com",
      email_verified: true,
      isQuiet: true,
      inToken: { email },
    });
    assert.equal((await tell(liar.sub))["error"], "email_not_verified");
    await configure({ autoProvision: true });
    const known = aPerson({ email_verified: false, isQuiet: true });
    assert.equal((await tell(known.sub))["error"], "email_not_verified");
  });

  it("tells the provider whom the page has asked for their address", async () => {
    await configure();
    const hintOf = async (parameters: object) => {
      const { headers } = await aBrowser().visit(ssoUrl(server, tenant, { ...parameters }));
      return new URL(headers.get("location")!).searchParams.get("login_hint");
    };
    assert.equal(await hintOf({ login_hint: `ada@${domain}` }), `ada@${domain}`);
    assert.equal(await hintOf({}), null);
  });

  it("signs in a member whose address the provider or the domain vouches for, and links them", async () => {
    await configure();
    const member = await aMember(api, tenant.tenantId, "ADMIN");
    const unproved = aPerson({ email: member.email });
    assert.equal((await tell(unproved.sub))["error"], "email_not_verified");
    const proved = aPerson({ email: member.email, email_verified: true });
    const { access_token: token = "" } = await tell(proved.sub);
    assert.equal(must(await server.get("/api/v1/auth/me", { token }), 200).user.id, member.userId);
  });

  it("makes no account where the tenant does not want that, nor for another domain", async () => {
    await configure();
    assert.equal((await tell(aPerson().sub))["error"], "account_not_found");
    await configure({ autoProvision: true });
    const foreign = aPerson({ email: `${randomUUID()}@example.com`, email_verified: true });
    assert.equal((await tell(foreign.sub))["error"], "account_not_found");
    assert.equal(await user(foreign.email), null);
  });

  it("lets only allowed domains in", async () => {
    const other = await aVerifiedDomain(server, tenant);
    await configure({ autoProvision: true, allowedDomains: [domain] });
    assert.equal((await tell(aPerson({ email: `x@${other}` }).sub))["error"], "email_domain_not_allowed");
    assert("access_token" in (await tell(aPerson().sub)));
  });

  it("never signs in, or takes over, a user of another tenant", async () => {
    await configure({ autoProvision: true });
    const other = await aTenant(server);
    const member = await aMember(api, other.tenantId, "OWNER");
    const { sub } = aPerson({ email: member.email, email_verified: true });
    // As for an address that nobody has: the tenant's own provider may ask for any.
    assert.equal((await tell(sub))["error"], "account_not_found");
    // An address of the tenant's own domain.
    const theirs = `theirs@${domain}`;
    await api.app.transact(({ em }) => em.nativeUpdate(User, { id: member.userId }, { email: theirs }));
    assert.equal((await tell(aPerson({ email: theirs }).sub))["error"], "email_of_other_tenant");
    const own = aPerson();
    assert("access_token" in (await tell(own.sub)));
    await api.app.transact(({ em }) =>
      em.nativeUpdate(User, { email: own.email }, { tenantId: other.tenantId }),
    );
    assert.equal((await user(own.email))?.tenantId, other.tenantId);
    assert(!("access_token" in (await tell(own.sub))));
  });

  it("takes an account from whoever set it up without proving its address", async () => {
    await configure({ autoProvision: true, defaultRole: "DESIGNER" });
    const { sub, email } = aPerson();
    const password = "Correct-horse-7";
    const body = { email, password, name: "A squatter", tenantId: tenant.tenantId };
    const squatter = must(await server.post("/api/v1/auth/register", body), 201);
    assert.equal(squatter.user.role, "VIEWER");
    assert("access_token" in (await tell(sub)));
    const { refreshToken } = squatter;
    assertError(await server.post("/api/v1/auth/refresh", { refreshToken }), 401, "REFRESH_TOKEN_REVOKED");
    assertError(await server.post("/api/v1/auth/login", { email, password }), 401, "INVALID_CREDENTIALS");
    const taken = await user(email);
    assert.deepEqual([taken?.status, taken?.role, taken?.emailVerified], ["ACTIVE", "DESIGNER", true]);
  });

  it("takes no more members than the plan has room for", async () => {
    await configure({ autoProvision: true });
    await putOnPlan(api, tenant.tenantId, "ENTERPRISE", { members: 1 });
    assert.equal((await tell(aPerson().sub))["error"], "seat_limit");
  });

  it("shuts out disabled users, and asks for a second factor of Laurel's own", async () => {
    await configure({ autoProvision: true });
    const { sub, email } = aPerson();
    await tell(sub);
    await api.app.transact(({ em }) => em.nativeUpdate(User, { email }, { mfaEnabled: true }));
    assert.equal((await tell(sub))["error"], "mfa_required");
    await api.app.transact(({ em }) => em.nativeUpdate(User, { email }, { disabledAt: new Date() }));
    assert.equal((await tell(sub))["error"], "account_disabled");
  });

  it("needs an address the first time, and tells the console when the person says no", async () => {
    await configure({ autoProvision: true });
    const { sub } = aPerson({ email: undefined as never });
    assert.equal((await tell(sub))["error"], "email_missing");
    assert.equal((await tell("nobody"))["error"], "access_denied");
  });

  it("begins for tenants that have it, and goes back to registered addresses alone", async () => {
    const start = async (of: { tenantId: string }, parameters = {}) => {
      const { status, body, headers } = await aBrowser().visit(ssoUrl(server, of, parameters));
      assert.equal(headers.get("location"), null);
      return { status, headers, body: JSON.parse(body) };
    };
    assertError(await start(tenant), 404);
    await configure();
    assertError(
      await start(tenant, { redirect_uri: "https://evil.example/" }),
      400,
      "REDIRECT_URI_NOT_ALLOWED",
    );
    assertError(await start({ tenantId: randomUUID() }), 404);
    assertError(await start({ tenantId: "x" }), 404);
    await configure({ status: "DISABLED" });
    assertError(await start(tenant), 404);
    await configure();
    await putOnPlan(api, tenant.tenantId, "PRO");
    assertError(await start(tenant), 404);
  });

  it("ends its sessions when it is disabled, removed or replaced", async () => {
    await configure({ autoProvision: true });
    const { sub } = aPerson();
    const sees = async (token = "") => (await server.get("/api/v1/auth/me", { token })).status;
    const first = (await tell(sub))["access_token"];
    assert.equal(await sees(first), 200);
    await configure({ autoProvision: true, status: "DISABLED" });
    assert.equal(await sees(first), 401);
    await configure({ autoProvision: true });
    const second = (await tell(sub))["access_token"];
    must(await server.delete("/api/v1/enterprise/sso", { token: tenant.token }), 200);
    assert.equal(await sees(second), 401);
    assert.equal(await sees(tenant.token), 200);
  });

  for (const [what, change] of Object.entries({
    disabled: () => configure({ status: "DISABLED" }),
    replaced: () => configure({ oidcClientId: "another", oidcClientSecret: "secret" }),
    removed: async () => must(await server.delete("/api/v1/enterprise/sso", { token: tenant.token }), 200),
  }))
    it(`gives no session for a code or a challenge of before it was ${what}`, async () => {
      await configure({ autoProvision: true });
      const person = aPerson();
      const codeOf = async () => (await tell(person.sub, { response_mode: "code" }))["code"];
      const [first, second] = [await codeOf(), await codeOf()];
      const exchange = (code?: string) => server.post("/api/v1/auth/oauth/exchange", { code });
      const { id } = must(await exchange(first), 200).user;
      await api.app.transact(({ em }) => em.nativeUpdate(User, { id }, { mfaEnabled: true }));
      const challenge = (await tell(person.sub))["challenge_token"];
      await change();
      assertError(await exchange(second), 400, "OAUTH_CODE_INVALID");
      const answer = { challengeToken: challenge, code: "000000" };
      assertError(await server.post("/api/v1/auth/login/mfa", answer), 401, "MFA_CHALLENGE_INVALID");
    });

  describe("of Entra and Google Workspace", () => {
    const kindOf = (kind: string, more: object = {}) =>
      api.app.transact(async ({ em }) => {
        const { SsoConfiguration } = await import("../../src/domain/accounts/sso/configuration.ts");
        await em.nativeUpdate(SsoConfiguration, { tenantId: tenant.tenantId }, {
          provider: kind,
          ...more,
        } as never);
      });

    it("believes Entra no address but those of a verified domain, whatever it claims", async () => {
      await configure({ autoProvision: true });
      await kindOf("AZURE_AD");
      const member = await aMember(api, tenant.tenantId, "OWNER");
      const liar = aPerson({ email: member.email, email_verified: true });
      assert.equal((await tell(liar.sub))["error"], "email_not_verified");
      assert("access_token" in (await tell(aPerson().sub)));
    });

    it("lets no Google account in that is not of the Workspace", async () => {
      await configure({ autoProvision: true, allowedDomains: [domain] });
      await kindOf("GOOGLE_WORKSPACE");
      const { sub } = aPerson({ email_verified: true });
      assert.equal((await tell(sub))["error"], "email_domain_not_allowed");
    });
  });

  describe("discovered by an address", () => {
    const discover = async (email: string) =>
      must(await server.post("/api/v1/auth/sso/discover", { email }), 200);
    const nothing = { ssoRequired: false, authUrl: null, displayName: null };

    it("leads to the tenant that has verified the domain, whoever has an account", async () => {
      assert.deepEqual(await discover(`ada@${domain}`), nothing);
      await configure();
      const found = { ssoRequired: false, authUrl: `/auth/sso/${tenant.tenantId}`, displayName: "Acme" };
      assert.deepEqual(await discover(`ada@${domain}`), found);
      assert.deepEqual(await discover(`  Nobody@${domain.toUpperCase()} `), found);
      assert.deepEqual(await discover(`ada@sub.${domain}`), nothing);
      assert.deepEqual(await discover(tenant.email), nothing);
      assert.deepEqual(await discover("no address"), nothing);
      await configure({ status: "DISABLED" });
      assert.deepEqual(await discover(`ada@${domain}`), nothing);
    });
  });
});
