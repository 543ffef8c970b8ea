import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { customFetch } from "openid-client";
import { hashRandomSecret } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { discover } from "../../src/platform/sso/oidc.ts";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import {
  answerOf,
  assertCountsOnce,
  assertOfOneBrowser,
  assertRefused,
  assertStateNeeded,
  changed,
  endOf,
  type HostileProvider,
  type Malice,
  startHostileProvider,
} from "../support/providers/hostile-provider.ts";
import { aBrowser, type Browser } from "../support/providers/oauth.ts";
import { aVerifiedDomain, oidcConfig, putSso, ssoStage, ssoUrl } from "../support/sso/server.ts";
import { madeOnce } from "../support/made.ts";

describe("attacks on single sign-on by OpenID Connect", () => {
  const { api, server, provider } = ssoStage();
  const tenant = madeOnce(() => aTenant(server));
  let domain: string;

  const configure = async (
    of = tenant,
    at: Pick<HostileProvider, "issuer" | "clientId" | "clientSecret"> = provider,
  ) => must(await putSso(server, of, oidcConfig(at, { autoProvision: of === tenant })), 200);
  const callbackOf = (of: Tenant) => `${server.url}/api/v1/auth/sso/oidc/${of.tenantId}/callback`;
  /** As far as the callback, which is not opened yet. */
  const toCallback = async (browser: Browser, of = tenant) =>
    (await browser.go(ssoUrl(server, of), callbackOf(of))).at.href;
  const come = async () => endOf(aBrowser(), ssoUrl(server, tenant));

  before(async () => {
    domain = await aVerifiedDomain(server, tenant);
    await configure();
  });
  beforeEach(() => {
    provider.malice = {};
    provider.person = { sub: "victim", email: `victim@${domain}`, name: "The Victim" };
  });

  it("fail only for what each test changes: the provider itself can be signed in with", async () => {
    assert("access_token" in (await come()));
  });

  const now = () => Math.floor(Date.now() / 1_000);
  // What every exchange refuses, whoever the provider is, oauth-answers.test.ts tries.
  const tokens: Record<string, () => Malice> = {
    "signed with another key": () => ({ alg: "foreign key" }),
    "not signed": () => ({ alg: "none" }),
    "signed with the client secret": () => ({ alg: "HS256" }),
    "that has expired": () => ({ claims: { exp: now() - 40, iat: now() - 340 } }),
  };
  for (const [name, malice] of Object.entries(tokens))
    it(`an ID token ${name} signs nobody in`, async () => {
      provider.malice = malice();
      assertRefused(await come());
    });

  it("an ID token may have expired less than half a minute ago, as clocks differ", async () => {
    provider.malice = { claims: { exp: now() - 20, iat: now() - 320 } };
    assert("access_token" in (await come()));
  });

  it("an answer of another issuer, or that names none, signs nobody in (mix-up)", async () => {
    provider.malice = { back: { iss: "https://idp.example" } };
    assertRefused(await come());
    provider.malice = { back: { iss: undefined } };
    assertRefused(await come());
  });

  it("metadata and keys may hold anything, of which nothing but what is used is remembered", async () => {
    const filler = Array.from({ length: 10_000 }, () => []);
    const used = { code_challenge_methods_supported: ["S256", "S256", "x"] };
    provider.malice = { metadata: { ...used, filler }, key: { filler } };
    await configure();
    assert("access_token" in (await come()));
    const parts = { fetchOf: () => (url: string, request: object) => fetch(url, request), isLocal: true };
    const settings = { ...provider, tenantId: tenant.tenantId, provider: "OIDC" as const, scopes: [] };
    const found = await discover(parts, { ...settings, redirectUri: callbackOf(tenant) });
    const remembered = JSON.stringify(found.serverMetadata());
    assert.match(remembered, /"code_challenge_methods_supported":\["S256"\]/);
    assert.ok(remembered.length < 600, remembered);
    const keys = await found[customFetch]!(`${provider.issuer}/jwks`, {} as never);
    assert.ok((await keys.text()).length < 600);
  });

  it("metadata beyond 128 KiB is not read", async () => {
    provider.malice = { metadata: { filler: "x".repeat(128 * 1_024) } };
    const answer = await putSso(server, tenant, oidcConfig({ ...provider, clientId: "large" }));
    assertError(answer, 422, "SSO_DISCOVERY_FAILED");
  });

  it("a state that is unknown, absent or there twice is 400, and sends nobody anywhere", async () => {
    const browser = aBrowser();
    const callback = await toCallback(browser);
    await assertStateNeeded(browser, callback);
  });

  it("another browser's callback is 400: nobody is signed in as somebody else", () =>
    assertOfOneBrowser((browser) => toCallback(browser)));

  it("a callback counts once, and for 10 minutes", async () => {
    const browser = aBrowser();
    const callback = await toCallback(browser);
    await assertCountsOnce(browser, callback);
    const late = await toCallback(browser);
    const hash = hashRandomSecret(new URL(late).searchParams.get("state")!);
    await api.sql`
      update sso_flows set expires_at = expires_at - interval '10 minutes'
      where state_hash = ${hash}`;
    assertError(await answerOf(browser, late), 400, "OAUTH_STATE_INVALID");
  });

  describe("with another tenant", () => {
    const other = madeOnce(() => aTenant(server));
    const foreign = madeOnce(startHostileProvider, (made) => made.close());
    before(async () => {
      await configure(other, foreign);
    });

    it("its callback completes no flow of this tenant, nor the reverse", async () => {
      const browser = aBrowser();
      const callback = await toCallback(browser);
      const moved = callback.replace(tenant.tenantId, other.tenantId);
      assertError(await answerOf(browser, moved), 400, "OAUTH_STATE_INVALID");
      assert("access_token" in (await endOf(browser, callback)));
    });

    it("its provider's code is of no use here", async () => {
      foreign.person = { sub: "victim", email: `victim@${domain}`, email_verified: true };
      const browser = aBrowser();
      const callback = await toCallback(browser);
      const theirs = new URL(await toCallback(aBrowser(), other));
      const mixed = changed(callback, "code", theirs.searchParams.get("code")!);
      assertRefused(await endOf(browser, changed(mixed, "iss", foreign.issuer)));
    });

    it("its provider signs nobody of this tenant in, whatever it says", async () => {
      assert("access_token" in (await come()));
      foreign.person = { sub: "victim", email: `victim@${domain}`, email_verified: true };
      assertRefused(await endOf(aBrowser(), ssoUrl(server, other)), "account_not_found");
    });
  });

  it("a provider that was replaced meanwhile completes nothing", async () => {
    const own = await aTenant(server);
    await configure(own);
    const browser = aBrowser();
    const callback = await toCallback(browser, own);
    const next = await startHostileProvider();
    try {
      await configure(own, next);
      assertError(await answerOf(browser, callback), 400, "OAUTH_STATE_INVALID");
    } finally {
      await next.close();
    }
  });

  it("an address that two spellings make another's is no address at all", async () => {
    for (const email of [`a@${domain}, b@${domain}`, `a@${domain}@evil.example`, `"a"@${domain}`]) {
      provider.person = { sub: randomUUID(), email, email_verified: true };
      assertRefused(await come(), "email_missing");
    }
  });

  it("makes nobody an OWNER, even if the stored role were that", async () => {
    const { SsoConfiguration } = await import("../../src/domain/accounts/sso/configuration.ts");
    const { tenantId } = tenant;
    const setRole = (defaultRole: "OWNER" | "VIEWER") =>
      api.app.transact(({ em }) => em.nativeUpdate(SsoConfiguration, { tenantId }, { defaultRole }));
    await setRole("OWNER");
    const email = `${randomUUID()}@${domain}`;
    provider.person = { sub: randomUUID(), email };
    assert("access_token" in (await come()));
    await setRole("VIEWER");
    assert.equal((await api.app.transact(({ em }) => em.findOne(User, { email })))?.role, "VIEWER");
  });

  it("answers that are no JSON, endless, or errors sign nobody in, and tell nothing", async () => {
    const answers: Malice["token"][] = [
      (response) => void response.writeHead(200).end("<html>"),
      (response) => void response.writeHead(500).end("secret detail"),
      (response) => void response.writeHead(302, { Location: "http://127.0.0.1:9/" }).end(),
      (response) =>
        void response
          .writeHead(200, { "Content-Type": "application/json" })
          .end(`"${"x".repeat(2_000_000)}"`),
    ];
    for (const token of answers) {
      provider.malice = token ? { token } : {};
      const answer = await come();
      assert(!("access_token" in answer));
      assert.ok(!JSON.stringify(answer).includes("secret detail"));
    }
  });
});
