import assert from "node:assert/strict";
import { randomInt, randomUUID } from "node:crypto";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { aMailTo, tokenIn } from "../support/mail/mailbox.ts";
import { type FakeGithub, startFakeGithub } from "../support/providers/fake-github.ts";
import { aBrowser, startOAuthServer, startUrl, told } from "../support/providers/oauth.ts";
import { startOpenIdProvider, type TestProvider } from "../support/providers/openid-provider.ts";
import {
  aDomain,
  aSigningKey,
  aVerifiedDomain,
  claimDomain,
  oidcConfig,
  putSso,
  samlConfig,
  ssoServer,
  ssoStage,
  startSsoServer,
  verifyDomain,
} from "../support/sso/server.ts";
import { selfSigned } from "../support/webhooks/receiver.ts";
import { pluck } from "../support/pluck.ts";

describe("sign-up by a provider with an address whose domain signs in through another tenant", () => {
  const api = madeOnce(startApp);
  let google: TestProvider;
  let github: FakeGithub;
  const server = madeOnce(
    () =>
      startOAuthServer(api, async (url) => {
        google = await startOpenIdProvider(`${url}/api/v1/auth/oauth/google/callback`);
        github = await startFakeGithub();
        return { google, github };
      }),
    async (made) => {
      await made.close();
      await google.close();
      await github.close();
    },
  );
  const sso = madeOnce(
    () => startSsoServer(api),
    (made) => made.close(),
  );
  const tenant = madeForEach(() => aTenant(sso));
  const { cert } = aSigningKey();

  type Provider = "google" | "github";
  /** Signs somebody up whose provider has verified the address. */
  const signUp = async (provider: Provider, email: string, parameters: Record<string, string> = {}) => {
    const person = randomUUID();
    google.people.set(person, { sub: person, email, email_verified: true, name: "Eve" });
    const emails = [{ email, primary: true, verified: true, visibility: "public" as const }];
    github.people.set(person, { id: randomInt(2 ** 40), name: "Eve", email: null, emails });
    const address = startUrl(server, provider, { flow: "signup", ...parameters });
    return told((await aBrowser(person).go(address)).at);
  };
  const find = (email: string) => api.app.transact(({ em }) => em.findOne(User, { email }));

  for (const provider of ["google", "github"] as const)
    it(`makes no account by ${provider}, unless they are invited, or nobody claims it any more`, async () => {
      const domain = await aVerifiedDomain(sso, tenant);
      const email = `ceo@${domain}`;
      must(await putSso(sso, tenant, samlConfig(cert)), 200);
      const refused = await signUp(provider, email);
      assert.deepEqual(Object.keys(refused).toSorted(), ["error", "error_description"]);
      assert.equal(refused["error"], "sso_required");
      assert.equal((await signUp(provider, email.toUpperCase()))["error"], "sso_required");
      assert.equal(await find(email), null);

      const other: Tenant = await aTenant(sso);
      const partner = `partner@${domain}`;
      const invitation = { email: partner, role: "VIEWER" };
      must(await sso.post("/api/v1/team/invitations", invitation, { token: other.token }), 201);
      const invitation_token = tokenIn(await aMailTo(partner, /./));
      assert("access_token" in (await signUp(provider, partner, { invitation_token })));
      assert.equal((await find(partner))?.tenantId, other.tenantId);

      must(await putSso(sso, tenant, samlConfig(cert, { status: "DISABLED" })), 200);
      assert("access_token" in (await signUp(provider, email)));
    });
});

const SSO = "/api/v1/enterprise/sso";

describe("configuration of single sign-on", () => {
  let tenant: Tenant;
  const { cert } = aSigningKey();

  const oidc = (more: object = {}) => oidcConfig(provider, more);
  const get = ({ token } = tenant) => server.get(SSO, { token });

  const { api, server, provider } = ssoStage();
  beforeEach(async () => {
    provider.malice = {};
    tenant = await aTenant(server);
  });

  it("is none at first, then what was put, and its secret never comes back", async () => {
    assertError(await get(), 404);
    const made = must(await putSso(server, tenant, oidc({ oidcScopes: ["email"] })), 200);
    const { id, createdAt, updatedAt, ...rest } = made;
    assert.ok(id && createdAt && updatedAt);
    const base = `${server.url}/api/v1/auth/sso`;
    assert.deepEqual(rest, {
      provider: "OIDC",
      displayName: "Acme",
      samlEntityId: null,
      samlSsoUrl: null,
      samlCertificate: null,
      samlCertificates: [],
      samlCertificateExpiresAt: null,
      samlIdpInitiated: false,
      oidcIssuer: provider.issuer,
      oidcClientId: provider.clientId,
      oidcClientSecretSet: true,
      oidcScopes: ["openid", "email"],
      autoProvision: false,
      defaultRole: "VIEWER",
      allowedDomains: [],
      enforceSso: false,
      breakGlassUserId: null,
      status: "ACTIVE",
      spEntityId: `${base}/saml/${tenant.tenantId}/metadata`,
      acsUrl: `${base}/saml/${tenant.tenantId}/acs`,
      oidcRedirectUri: `${base}/oidc/${tenant.tenantId}/callback`,
      customDomains: [],
      lastTestedAt: null,
    });
    assert.deepEqual(must(await get(), 200), made);
    const stored = await api.sql<{ secret: string }>`
      select oidc_client_secret as secret from sso_configurations where id = ${id}::uuid`;
    assert.match(stored[0]!.secret, /^v1:/);
    assert.ok(!stored[0]!.secret.includes(provider.clientSecret));
    const [entry] = await auditOf(api, id);
    assert.equal(entry?.action, "sso.updated");
    assert.ok(!JSON.stringify(entry).includes(provider.clientSecret));
    await aMailTo(tenant.email, /single sign-on was changed/i);
  });

  it("keeps the client secret for the same issuer and client, and asks for it for another", async () => {
    must(await putSso(server, tenant, oidc()), 200);
    const { oidcClientSecret: _secret, ...without } = oidc({ displayName: "Renamed" });
    const kept = must(await putSso(server, tenant, without), 200);
    assert.deepEqual([kept.displayName, kept.oidcClientSecretSet], ["Renamed", true]);
    const other = { ...without, oidcClientId: "another" };
    assertError(await putSso(server, tenant, other), 422, "SSO_CONFIG_INVALID");
    const changed = must(await putSso(server, tenant, { ...other, oidcClientSecret: "new" }), 200);
    assert.equal(changed.id, kept.id);
  });

  it("takes the provider by its other names, and refuses none, two and unknown ones", async () => {
    const { provider: _provider, ...rest } = samlConfig(cert);
    assert.equal(must(await putSso(server, tenant, { ...rest, providerType: "SAML" }), 200).provider, "SAML");
    assert.equal(must(await putSso(server, tenant, { ...rest, type: "SAML" }), 200).provider, "SAML");
    assertError(await putSso(server, tenant, rest), 400);
    assertError(await putSso(server, tenant, { ...rest, type: "SAML", provider: "OIDC" }), 400);
    assertError(await putSso(server, tenant, { ...rest, provider: "LDAP" }), 400);
    assertError(await putSso(server, tenant, { ...samlConfig(cert), other: 1 }), 400);
  });

  it("of SAML shows its certificates, and takes a bare one", async () => {
    const next = aSigningKey(20);
    const both = must(await putSso(server, tenant, samlConfig(`${cert}\n${next.cert}`)), 200);
    assert.equal(both.samlCertificates.length, 2);
    assert.equal(both.samlCertificateExpiresAt, both.samlCertificates[1].notAfter);
    const bare = cert.replaceAll(/-----[^-]+-----/g, "");
    const one = must(await putSso(server, tenant, samlConfig(bare)), 200);
    assert.deepEqual(one.samlCertificates, [both.samlCertificates[0]]);
    assert.match(one.samlCertificate, /^-----BEGIN CERTIFICATE-----/);
  });

  it("refuses certificates that are expired, weak, too many, or none", async () => {
    const until = new Date(Date.now() - 1_000);
    const bad = {
      expired: selfSigned({ names: ["idp"], until }).cert,
      "1024 bits": aSigningKey(365, 1_024).cert,
      "four of them": cert.repeat(4),
      text: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
      "something else": `${cert}and more`,
    };
    for (const one of Object.values(bad))
      assertError(await putSso(server, tenant, samlConfig(one)), 422, "CERTIFICATE_INVALID");
    const curve = must(await putSso(server, tenant, samlConfig(selfSigned({ names: ["idp"] }).cert)), 200);
    assert.equal(curve.samlCertificates.length, 1);
  });

  it("refuses what is incomplete or cannot work", async () => {
    const bad: object[] = [
      { ...samlConfig(cert), samlEntityId: undefined },
      { ...samlConfig(cert), samlSsoUrl: "ftp://idp.test/" },
      { ...samlConfig(cert), samlSsoUrl: "javascript:alert(1)" },
      oidc({ oidcClientId: undefined }),
      oidc({ oidcIssuer: undefined }),
      oidc({ oidcClientSecret: undefined }),
      oidc({ samlIdpInitiated: true }),
      oidc({ defaultRole: "OWNER" }),
      oidc({ allowedDomains: ["com"] }),
      oidc({ allowedDomains: ["not a domain"] }),
      oidc({ autoProvision: true }),
      oidc({ provider: "AZURE_AD", oidcIssuer: "https://login.microsoftonline.com/common/v2.0" }),
      oidc({ provider: "AZURE_AD", oidcIssuer: "https://login.example.com/v2.0" }),
      oidc({ provider: "GOOGLE_WORKSPACE" }),
      oidc({ enforceSso: true }),
    ];
    for (const body of bad) assertError(await putSso(server, tenant, body), 422, "SSO_CONFIG_INVALID");
    assertError(await get(), 404);
  });

  it("reads the provider's metadata before it stores an issuer", async () => {
    provider.malice = { isDown: true };
    assertError(await putSso(server, tenant, oidc()), 422, "SSO_DISCOVERY_FAILED");
    provider.malice = {};
    const elsewhere = provider.issuer.replace("127.0.0.1", "localhost");
    assertError(await putSso(server, tenant, oidc({ oidcIssuer: elsewhere })), 422, "SSO_DISCOVERY_FAILED");
    assertError(
      await putSso(server, tenant, oidc({ oidcIssuer: `${server.url}/none` })),
      422,
      "SSO_DISCOVERY_FAILED",
    );
    assertError(await get(), 404);
  });

  it("stores no issuer that knows its clients only by what this server does not do", async () => {
    provider.malice = { metadata: { token_endpoint_auth_methods_supported: ["private_key_jwt"] } };
    assertError(await putSso(server, tenant, oidc()), 422, "SSO_DISCOVERY_FAILED");
    provider.malice.metadata = {
      token_endpoint_auth_methods_supported: ["private_key_jwt", "client_secret_post"],
    };
    must(await putSso(server, tenant, oidc()), 200);
  });

  it("never lets an issuer lead to a private address, unless the operator allows that", async () => {
    const outbound = { ...api.app.config.outbound, allowLocal: false };
    const strict = await startSsoServer(api, { outbound });
    try {
      const before = provider.discoveries();
      for (const host of ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "localhost"]) {
        const body = oidc({ oidcIssuer: `https://${host}/` });
        assertError(await putSso(strict, tenant, body), 422, "SSO_DISCOVERY_FAILED");
      }
      assertError(await putSso(strict, tenant, oidc()), 422, "SSO_CONFIG_INVALID");
      assert.equal(provider.discoveries(), before);
    } finally {
      await strict.close();
    }
  });

  it("needs a plan with it; a tenant that loses that can read and remove it", async () => {
    must(await putSso(server, tenant, samlConfig(cert)), 200);
    const other = await aTenant(server);
    await putOnPlan(api, other.tenantId, "PRO");
    await putOnPlan(api, tenant.tenantId, "PRO");
    const { forgetSessions } = await import("../../src/domain/accounts/auth/sessions.ts");
    forgetSessions();
    assertError(await putSso(server, other, samlConfig(cert)), 402, "PLAN_FEATURE_UNAVAILABLE");
    assertError(
      await server.post(`${SSO}/test`, {}, { token: tenant.token }),
      402,
      "PLAN_FEATURE_UNAVAILABLE",
    );
    must(await get(), 200);
    must(await server.delete(SSO, { token: tenant.token }), 200);
  });

  it("is removed once", async () => {
    const { id } = must(await putSso(server, tenant, samlConfig(cert)), 200);
    assert.deepEqual(must(await server.delete(SSO, { token: tenant.token }), 200), { deleted: true });
    assertError(await get(), 404);
    assertError(await server.delete(SSO, { token: tenant.token }), 404);
    assert.deepEqual(pluck(await auditOf(api, id), "action"), ["sso.updated", "sso.deleted"]);
  });

  describe("tested", () => {
    const test = () => server.post(`${SSO}/test`, {}, { token: tenant.token });
    const failedOf = (body: { checks: { name: string; ok: boolean }[] }) =>
      body.checks.filter(({ ok }) => !ok).map(({ name }) => name);

    it("tells what can be seen of an OpenID provider, and what is wrong", async () => {
      assertError(await test(), 404);
      must(await putSso(server, tenant, oidc()), 200);
      const good = must(await test(), 200);
      assert.equal(good.success, true);
      assert.ok(good.checks.length >= 4);
      assert.equal(must(await get(), 200).lastTestedAt, good.testedAt);
      provider.malice = { isDown: true };
      const bad = must(await test(), 200);
      assert.deepEqual([bad.success, failedOf(bad)], [false, ["discovery"]]);
    });

    it("tells which certificates of a SAML provider are valid, and whether its page answers", async () => {
      must(await putSso(server, tenant, samlConfig(cert, { samlSsoUrl: `${server.url}/health` })), 200);
      assert.equal(must(await test(), 200).success, true);
      must(await putSso(server, tenant, samlConfig(cert, { samlSsoUrl: "http://127.0.0.1:9/" })), 200);
      assert.deepEqual(failedOf(must(await test(), 200)), ["signOnAddress"]);
    });

    it("ten times an hour", async () => {
      must(await putSso(server, tenant, samlConfig(cert, { samlSsoUrl: "http://127.0.0.1:9/" })), 200);
      for (let at = 0; at < 10; at++) must(await test(), 200);
      assertError(await test(), 429, "SSO_TEST_RATE");
    });
  });
});

describe("domains of single sign-on", () => {
  const { cert } = aSigningKey();

  const { api, server } = ssoServer();
  const tenant = madeForEach(() => aTenant(server));

  const DOMAINS = "/api/v1/enterprise/sso/domains";
  const verify = (domain: { id: string; domain: string }, by = tenant) => verifyDomain(server, by, domain);
  const claim = (domain: string, { token } = tenant) => server.post(DOMAINS, { domain }, { token });

  it("counts one that a TXT record proves, whatever other records there are", async () => {
    const made = await claimDomain(server, tenant);
    assert.equal(made.txtName, `_laurel-challenge.${made.domain}`);
    server.dns.records.set(made.txtName, [["v=spf1 -all"]]);
    assertError(await verify(made), 422, "DNS_NOT_READY");
    server.dns.records.delete(made.txtName);
    assertError(await verify(made), 422, "DNS_NOT_READY");
    const { txtValue } = made;
    server.dns.records.set(made.txtName, [["v=spf1 -all"], [txtValue.slice(0, 20), txtValue.slice(20)]]);
    assert.equal(must(await verify(made), 200).status, "VERIFIED");
    server.dns.records.clear();
    const [listed] = must(await server.get(DOMAINS, { token: tenant.token }), 200).data;
    assert.deepEqual([listed.domain, listed.status], [made.domain, "VERIFIED"]);
    assert.deepEqual(pluck(await auditOf(api, made.id), "action"), [
      "sso_domain.added",
      "sso_domain.verified",
    ]);
  });

  it("is looked for once a minute", async () => {
    const made = await claimDomain(server, tenant);
    must(await verify(made), 200);
    const again = await server.post(`${DOMAINS}/${made.id}/verify`, {}, { token: tenant.token });
    assertError(again, 429, "DOMAIN_CHECK_RATE");
  });

  it("changes nothing while DNS servers fail", async () => {
    const made = await claimDomain(server, tenant);
    server.dns.records.set(made.txtName, "SERVFAIL");
    assertError(await verify(made), 422, "DNS_NOT_READY");
  });

  it("is proved by the record of this tenant alone, and belongs to the first who proves it", async () => {
    const domain = aDomain();
    const other = await aTenant(server);
    const mine = await claimDomain(server, tenant, domain);
    const theirs = await claimDomain(server, other, domain);
    assert.notEqual(mine.txtValue, theirs.txtValue);
    assertError(await verify(mine), 422, "DNS_NOT_READY");
    assertError(await verify(mine, other), 404);
    must(await verify(theirs, other), 200);
    server.dns.records.set(mine.txtName, [[mine.txtValue]]);
    assertError(await verify(mine), 409, "DOMAIN_ALREADY_CLAIMED");
  });

  it("is stored in ASCII and lower case; names that nobody can register are refused", async () => {
    const made = must(await claim("Bücher-Laurel.DE"), 201);
    assert.equal(made.domain, "xn--bcher-laurel-dlb.de");
    assertError(await claim("bücher-laurel.de"), 409, "DOMAIN_ALREADY_CLAIMED");
    for (const bad of [
      "com",
      "co.uk",
      "127.0.0.1",
      "[::1]",
      "*.acme.com",
      "acme.com:80",
      "a b.com",
      "",
      "acme",
    ])
      assertError(await claim(bad), 400);
  });

  it("is kept while accounts are made for its addresses", async () => {
    const domain = await aVerifiedDomain(server, tenant);
    must(await putSso(server, tenant, samlConfig(cert, { autoProvision: true })), 200);
    const { data } = must(await server.get(DOMAINS, { token: tenant.token }), 200);
    const [{ id }] = data.filter((one: { domain: string }) => one.domain === domain);
    const remove = (token = tenant.token) => server.delete(`${DOMAINS}/${id}`, { token });
    assertError(await remove(), 409, "INVALID_STATE");
    must(await putSso(server, tenant, samlConfig(cert)), 200);
    assertError(await remove((await aTenant(server)).token), 404);
    must(await remove(), 200);
    assertError(await remove(), 404);
  });

  describe("whose people sign in through a provider", () => {
    const register = (email: string, more: object = {}) =>
      server.post("/api/v1/auth/register", { email, password: "Correct-horse-7", name: "Eve", ...more });
    let domain: string;
    beforeEach(async () => {
      domain = await aVerifiedDomain(server, tenant);
      must(await putSso(server, tenant, samlConfig(cert)), 200);
    });

    it("are registered by nobody elsewhere, which would shut them out", async () => {
      const other = await aTenant(server);
      const email = `ceo@${domain}`;
      assertError(await register(email), 403, "EMAIL_DOMAIN_CLAIMED");
      assertError(await register(email.toUpperCase()), 403, "EMAIL_DOMAIN_CLAIMED");
      assertError(await register(email, { tenantId: other.tenantId }), 403, "EMAIL_DOMAIN_CLAIMED");
      must(await register(`ceo@sub.${domain}`), 201);
      must(await register(email, { tenantId: tenant.tenantId }), 201);
    });

    it("may be invited elsewhere: the mail proves that it is they", async () => {
      const other = await aTenant(server);
      const email = `partner@${domain}`;
      const invitation = { email, role: "VIEWER" };
      must(await server.post("/api/v1/team/invitations", invitation, { token: other.token }), 201);
      const invitationToken = tokenIn(await aMailTo(email, /./));
      must(await register(email, { invitationToken }), 201);
    });

    it("are anybody's again without provider, proof or plan", async () => {
      must(await putSso(server, tenant, samlConfig(cert, { status: "DISABLED" })), 200);
      must(await register(`one@${domain}`), 201);
      must(await putSso(server, tenant, samlConfig(cert)), 200);
      await putOnPlan(api, tenant.tenantId, "PRO");
      must(await register(`two@${domain}`), 201);
      await putOnPlan(api, tenant.tenantId, "ENTERPRISE");
      assertError(await register(`three@${domain}`), 403, "EMAIL_DOMAIN_CLAIMED");
      const claimed = await claimDomain(server, tenant);
      must(await register(`four@${claimed.domain}`), 201);
    });
  });
});
