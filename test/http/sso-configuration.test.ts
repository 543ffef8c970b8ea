import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { auditOf } from "../support/app/audit.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { startHostileProvider } from "../support/providers/hostile-provider.ts";
import { putSso, startSsoServer } from "../support/sso/server.ts";
import { aSigningKey, samlConfig } from "../support/sso/saml-config.ts";
import { selfSigned } from "../support/webhooks/certificate.ts";
import { madeOnce } from "../support/made.ts";

const SSO = "/api/v1/enterprise/sso";

describe("configuration of single sign-on", () => {
  let tenant: Tenant;
  const { cert } = aSigningKey();

  const oidc = (more: object = {}) => ({
    provider: "OIDC",
    displayName: "Acme",
    oidcIssuer: provider.issuer,
    oidcClientId: provider.clientId,
    oidcClientSecret: provider.clientSecret,
    ...more,
  });
  const get = ({ token } = tenant) => server.get(SSO, { token });

  const api = madeOnce(startApp);
  const server = madeOnce(() => startSsoServer(api));
  const provider = madeOnce(() => startHostileProvider());
  beforeEach(async () => {
    provider.malice = {};
    tenant = await aTenant(server);
  });
  after(async () => {
    await server.close();
    await provider.close();
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
    const stored = await api.app.transact(({ db }) =>
      sql<{ secret: string }>`
        select oidc_client_secret as secret from sso_configurations where id = ${id}::uuid`.execute(db),
    );
    assert.match(stored.rows[0]!.secret, /^v1:/);
    assert.ok(!stored.rows[0]!.secret.includes(provider.clientSecret));
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
    assert.deepEqual(
      (await auditOf(api, id)).map(({ action }) => action),
      ["sso.updated", "sso.deleted"],
    );
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
