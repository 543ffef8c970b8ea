import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { FAILURES_KEPT } from "../../src/domain/accounts/sso/clients.ts";
import { aTenant } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { startHostileProvider } from "../support/providers/hostile-provider.ts";
import { aBrowser, told } from "../support/providers/oauth.ts";
import {
  aSigningKey,
  aVerifiedDomain,
  putSso,
  samlConfig,
  ssoServer,
  ssoUrl,
} from "../support/sso/server.ts";
import { bring, partsOf, postForm, responseXml, signAssertion, toIdp } from "../support/sso/saml-idp.ts";
import { pluck } from "../support/pluck.ts";

type Failure = Record<"error" | "message" | "reason" | "email" | "requestId", string> & { times: number };

describe("sign-ins through a provider that fail", () => {
  const { api, server } = ssoServer();
  const provider = madeOnce(startHostileProvider, (made) => made.close());
  let domain: string;
  const tenant = madeForEach(() => aTenant(server));
  beforeEach(async () => {
    domain = await aVerifiedDomain(server, tenant);
    provider.malice = {};
    provider.person = { sub: randomUUID(), email: `ada@${domain}`, email_verified: true };
  });

  const failures = async (of = tenant): Promise<Failure[]> =>
    must(await server.get("/api/v1/enterprise/sso/failures", { token: of.token }), 200).data;
  const openId = async (more: object = {}) => {
    const { issuer: oidcIssuer, clientId: oidcClientId, clientSecret: oidcClientSecret } = provider;
    const settings = { provider: "OIDC", displayName: "Acme", oidcIssuer, oidcClientId, oidcClientSecret };
    must(await putSso(server, tenant, { ...settings, ...more }), 200);
  };
  const come = async () => told((await aBrowser().go(ssoUrl(server, tenant))).at);
  /** What the browser and the administrators are told of a sign-in by SAML. */
  const saml = async (changed: Parameters<typeof partsOf>[2] = {}, key = aSigningKey(), of = key) => {
    must(await putSso(server, tenant, samlConfig(key.cert)), 200);
    const asked = await toIdp(server, tenant);
    const answer = await bring(
      asked,
      signAssertion(responseXml(partsOf(asked, `ada@${domain}`, changed)), of),
    );
    return { answer, latest: (await failures())[0]! };
  };

  it("are told to administrators with what exactly was wrong, which the browser is not", async () => {
    await openId();
    provider.malice = { claims: { aud: "another" } };
    const { error, error_description: message } = await come();
    const [latest, ...others] = await failures();
    assert.deepEqual(others, []);
    assert.deepEqual([latest!.error, latest!.message], [error, message]);
    assert.match(latest!.reason, /aud/);
    assert.doesNotMatch(message!, /aud/);
    assert.match(latest!.requestId, /./);
  });

  it("name the address once the provider has given it, and why nobody was let in", async () => {
    await openId();
    assert.equal((await come())["error"], "account_not_found");
    const [latest] = await failures();
    assert.deepEqual(
      [latest!.error, latest!.email, latest!.reason],
      [
        "account_not_found",
        `ada@${domain}`,
        "no member has the address, no invitation counts for it, and autoProvision is off",
      ],
    );
    await openId({ allowedDomains: ["else.com"] });
    await come();
    assert.equal((await failures())[0]!.reason, `allowedDomains does not name ${domain}`);
  });

  it("name a provider that cannot be reached any more", async () => {
    const gone = await startHostileProvider();
    const { issuer: oidcIssuer, clientId: oidcClientId, clientSecret: oidcClientSecret } = gone;
    const settings = { provider: "OIDC", displayName: "Acme", oidcIssuer, oidcClientId, oidcClientSecret };
    must(await putSso(server, tenant, settings), 200);
    await gone.close();
    assert.equal((await come())["error"], "temporarily_unavailable");
    assert.equal((await failures())[0]!.reason, "the connection was refused");
  });

  it("name a client secret that the provider refuses", async () => {
    await openId();
    provider.malice = {
      token: (response) =>
        response
          .writeHead(401, { "WWW-Authenticate": 'Basic realm="acme"', "Content-Type": "application/json" })
          .end('{"error": "invalid_client"}'),
    };
    await come();
    assert.equal((await failures())[0]!.reason, "the provider refuses the client id or the client secret");
  });

  it("by SAML say what the provider is to change", async () => {
    const [key, another] = [aSigningKey(), aSigningKey()];
    const reasons = [
      [{ recipient: "https://other.example/acs" }, /^SubjectConfirmation: Recipient is not http.*\/acs$/],
      [
        { audience: "https://other.example" },
        /audience mismatch.*http.*\/metadata Received: https:\/\/other\.example$/,
      ],
      [{ issuer: "https://evil.test" }, /^Issuer is not samlEntityId, but https:\/\/evil\.test$/],
      [{ conditionsUntil: new Date(Date.now() - 900_000) }, /expired/],
    ] as const;
    for (const [changed, reason] of reasons) {
      const { answer, latest } = await saml(changed, key);
      assert.equal(answer["error_description"], "The provider's answer could not be trusted");
      assert.match(latest.reason, reason);
    }
    const { latest } = await saml({}, key, another);
    assert.match(latest.reason, /signature/i);
    // What no signature vouches for is one row, whatever it says.
    assert.deepEqual(pluck(await failures(), "times"), [3, 1, 1]);
  });

  it("that began at the provider say so, where the tenant does not take them", async () => {
    const key = aSigningKey();
    must(await putSso(server, tenant, samlConfig(key.cert)), 200);
    const acs = `${server.url}/api/v1/auth/sso/saml/${tenant.tenantId}/acs`;
    const answer = await postForm(aBrowser(), acs, { SAMLResponse: "YQ==" });
    assert.equal(answer.status, 400);
    assert.match(
      JSON.stringify(answer.body),
      /OAUTH_STATE_INVALID.*samlIdpInitiated|samlIdpInitiated.*OAUTH_STATE_INVALID/,
    );
  });

  it("that are alike are one, with how often; 50 are kept, those that came last", async () => {
    await openId();
    for (let n = 0; n < 3; n++) await come();
    assert.deepEqual(pluck(await failures(), "times"), [3]);
    for (let n = 0; n < FAILURES_KEPT; n++) {
      provider.person = { sub: randomUUID(), email: `p${n}@${domain}`, email_verified: true };
      await come();
    }
    const kept = await failures();
    assert.equal(kept.length, FAILURES_KEPT);
    assert.equal(kept[0]!.email, `p${FAILURES_KEPT - 1}@${domain}`);
    assert.ok(!kept.some(({ email }) => email === `ada@${domain}`));
  });

  it("keep their place in the list, whatever anybody's browser brings back", async () => {
    await openId();
    await come();
    for (let n = 0; n < FAILURES_KEPT; n++) {
      const browser = aBrowser();
      const callback = `${server.url}/api/v1/auth/sso/oidc/${tenant.tenantId}/callback`;
      const { at } = await browser.go(ssoUrl(server, tenant), provider.issuer);
      const back = { state: at.searchParams.get("state")!, iss: provider.issuer, error: "x" };
      await browser.go(
        `${callback}?${new URLSearchParams({ ...back, error_description: `${n}` }).toString()}`,
      );
    }
    const [brought, real, ...others] = await failures();
    assert.deepEqual([brought!.times, others], [FAILURES_KEPT, []]);
    assert.equal(brought!.reason, `the browser came back with x: ${FAILURES_KEPT - 1}`);
    assert.equal(real!.error, "account_not_found");
  });

  it("say nothing of who has an account elsewhere", async () => {
    const other = await aTenant(server);
    await openId();
    for (const email of [other.email, `nobody-${randomUUID()}@example.com`]) {
      provider.person = { sub: randomUUID(), email, email_verified: true };
      assert.equal((await come())["error"], "account_not_found");
    }
    const [first, second] = (await failures()).map(({ error, message, reason }) => [error, message, reason]);
    assert.deepEqual(first, second);
  });

  it("are forgotten 30 days after the last time", async () => {
    await openId();
    await come();
    await api.sql`update sso_failures set expires_at = now() where tenant_id = ${tenant.tenantId}::uuid`;
    assert.deepEqual(await failures(), []);
  });
});
