import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { inflateRawSync } from "node:zlib";
import { sql } from "kysely";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import {
  aServedDomain,
  atHost,
  cookiesOf,
  pathOf,
  removeDomain,
  setDomain,
} from "../support/domains/server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach } from "../support/made.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import {
  aBrowser,
  CONSOLE,
  type OAuthServer,
  startOAuthServer,
  startUrl,
  told,
} from "../support/providers/oauth.ts";
import { startOpenIdProvider, type TestProvider } from "../support/providers/openid-provider.ts";
import {
  aSigningKey,
  aVerifiedDomain,
  oidcConfig,
  putSso,
  samlConfig,
  ssoServer,
  ssoUrl,
} from "../support/sso/server.ts";
import { bring, partsOf, responseXml, signAssertion, toIdp } from "../support/sso/saml-idp.ts";

const TENANT = "/api/v1/tenant";

describe("OAuth at custom domains", () => {
  let api: TestApp;
  let server: OAuthServer;
  let google: TestProvider;
  let tenant: Tenant;
  let other: Tenant;
  let own: { id: string; domain: string };
  let theirs: { id: string; domain: string };
  before(async () => {
    api = await startApp();
    server = await startOAuthServer(api, async (url) => {
      google = await startOpenIdProvider(`${url}/api/v1/auth/oauth/google/callback`);
      return { google, github: undefined };
    });
    [tenant, other] = [await aTenant(api), await aTenant(api)];
    [own, theirs] = [await aServedDomain(api, tenant), await aServedDomain(api, other)];
  });
  after(async () => {
    await server.close();
    await google.close();
  });

  /** A member with a proved address, whom the provider knows. */
  const known = async (of: Tenant): Promise<string> => {
    const { email } = await aMember(api, of.tenantId, "DEVELOPER");
    const sub = randomUUID();
    google.people.set(sub, { sub, email, email_verified: true, name: "Grace" });
    return sub;
  };
  const begin = (host: string, parameters = {}) =>
    atHost(server, host, { path: pathOf(startUrl(server, "google", parameters)) });

  it("begins at PUBLIC_URL, which alone the provider knows, for people of the domain's tenant", async () => {
    const begun = await begin(own.domain, { response_mode: "code" });
    assert.equal(begun.status, 302);
    assert.equal(begun.headers["set-cookie"], undefined);
    const location = new URL(begun.headers.location!);
    assert.equal(location.origin, server.url);
    assert.deepEqual(Object.fromEntries(location.searchParams), {
      redirect_uri: CONSOLE,
      response_mode: "code",
      flow: "login",
      tenantId: tenant.tenantId,
    });
    const come = async (sub: string) => told((await aBrowser(sub).go(location.href)).at);
    assert.equal((await come(await known(other)))["error"], "account_not_found");
    const { code } = await come(await known(tenant));
    assert(code);
    const path = "/api/v1/auth/oauth/exchange";
    const exchange = (host: string) => atHost(server, host, { path, method: "POST", body: { code } });
    const elsewhere = await exchange(theirs.domain);
    assert.equal(elsewhere.status, 400);
    assert.match(elsewhere.body, /OAUTH_CODE_INVALID/);
    const { status, body } = await exchange(own.domain);
    assert.equal(status, 200, body);
    const me = must(await api.get("/api/v1/auth/me", { token: JSON.parse(body).accessToken }), 200);
    assert.equal(me.user.tenantId, tenant.tenantId);
  });

  it("begins for no other tenant there, and ends at PUBLIC_URL alone", async () => {
    assert.equal((await begin(own.domain, { tenantId: other.tenantId })).status, 404);
    const path = "/api/v1/auth/oauth/google/callback?state=x&code=y";
    assert.equal((await atHost(server, own.domain, { path })).status, 404);
    assert.equal((await atHost(server, new URL(server.url).host, { path })).status, 400);
  });

  it("leads no stranger's host anywhere", async () => {
    const { headers } = await begin("login.evil.example.com", {});
    const location = new URL(headers.location!);
    assert.equal(location.origin, google.issuer);
    assert.doesNotMatch(JSON.stringify(headers), /evil/);
  });
});

describe("links of mails at custom domains", () => {
  let api: TestApp;
  let tenant: Tenant;
  let own: { id: string; domain: string };
  before(async () => {
    api = await startApp();
  });
  beforeEach(async () => {
    tenant = await aTenant(api);
    own = await aServedDomain(api, tenant);
  });

  const patch = (body: object, { token }: Pick<Tenant, "token"> = tenant) =>
    api.patch(TENANT, body, { token });
  /** The address whose page the link of the next mail about a password leads to. */
  const base = async (): Promise<string> => {
    const { email } = await aMember(api, tenant.tenantId, "VIEWER");
    must(await api.post("/api/v1/auth/forgot-password", { email }), 200);
    const { text = "" } = await aMailTo(email, /password/i);
    return /(https?:\/\/\S+)\/reset-password\?token=\S+/.exec(text)![1]!;
  };
  const console_ = () => api.app.config.consoleUrl;

  it("lead there when an OWNER wants that, to the console, while the domain is the tenant's", async () => {
    assert.equal(await base(), console_(), "a domain alone changes nothing");
    assert.equal(must(await patch({ linkDomain: own.domain }), 200).linkDomain, own.domain);
    assert.equal(await base(), `https://${own.domain}`);
    for (const doubt of [
      sql`failing_since = now()`,
      sql`failing_since = null, txt = 'UNKNOWN'`,
      sql`txt = 'OK', status = 'DEGRADED'`,
      sql`status = 'SUSPENDED'`,
    ]) {
      await setDomain(api, own.id, doubt);
      assert.equal(await base(), console_());
    }
    await setDomain(api, own.id, sql`status = 'ACTIVE'`);
    assert.equal(await base(), `https://${own.domain}`);
    await removeDomain(api, tenant, own.id);
    assert.equal(must(await api.get(TENANT, { token: tenant.token }), 200).linkDomain, null);
    assert.equal(await base(), console_());
  });

  it("prove no address there: those of invitations and new addresses lead to the console", async () => {
    must(await patch({ linkDomain: own.domain }), 200);
    const email = `${randomUUID()}@example.com`;
    must(await api.post("/api/v1/team/invitations", { email, role: "VIEWER" }, { token: tenant.token }), 201);
    const { text = "" } = await aMailTo(email, /./);
    assert.match(text, new RegExp(`${console_()}/accept-invitation`));
    assert.doesNotMatch(text, new RegExp(own.domain));
  });

  it("lead nowhere else by the word of an ADMIN, of another tenant, or of a Host header", async () => {
    const admin = await aMember(api, tenant.tenantId, "ADMIN");
    assertError(await patch({ linkDomain: own.domain }, admin), 403, "INSUFFICIENT_ROLE");
    const theirs = await aServedDomain(api, await aTenant(api));
    for (const linkDomain of [theirs.domain, "evil.example.com", ""])
      assertError(await patch({ linkDomain }), 400);
    await setDomain(api, own.id, sql`status = 'VERIFIED'`);
    assertError(await patch({ linkDomain: own.domain }), 400);
    const { email } = await aMember(api, tenant.tenantId, "VIEWER");
    const asked = await atHost(api, "login.evil.example.com", {
      path: "/api/v1/auth/forgot-password",
      method: "POST",
      body: { email },
      headers: { "X-Forwarded-Host": "login.evil.example.com" },
    });
    assert.equal(asked.status, 200, asked.body);
    assert.doesNotMatch(JSON.stringify(await aMailTo(email, /password/i)), /evil/);
  });

  it("are led on to the console by the domain, with their token, and by no other host", async () => {
    for (const page of ["/verify-email", "/reset-password", "/accept-invitation"]) {
      const path = `${page}?token=abc%2Fdef`;
      const { status, headers } = await atHost(api, own.domain, { path });
      assert.deepEqual([status, headers.location], [302, `${console_()}${path}`]);
      assert.deepEqual([headers["cache-control"], headers["referrer-policy"]], ["no-store", "no-referrer"]);
      assert.equal((await atHost(api, "login.evil.example.com", { path })).status, 404);
    }
    assert.equal((await atHost(api, own.domain, { path: "/reset-password/x" })).status, 404);
  });
});

const EVIL = "login.evil.example.com";

describe("single sign-on at custom domains", () => {
  let tenant: Tenant;
  let other: Tenant;
  let own: { id: string; domain: string };
  let theirs: { id: string; domain: string };
  let mailDomain: string;
  const start = () => pathOf(ssoUrl(server, tenant));

  const { api, server } = ssoServer();
  beforeEach(async () => {
    [tenant, other] = [await aTenant(server), await aTenant(server)];
    [own, theirs] = [await aServedDomain(api, tenant), await aServedDomain(api, other)];
    mailDomain = await aVerifiedDomain(server, tenant);
  });

  describe("by OpenID Connect", () => {
    const callback = (at: string) => `${at}/api/v1/auth/sso/oidc/${tenant.tenantId}/callback`;
    const provider = madeForEach(() =>
      startOpenIdProvider(callback(server.url), callback(`https://${own.domain}`)),
    );
    beforeEach(async () => {
      must(await putSso(server, tenant, oidcConfig(provider, { autoProvision: true })), 200);
    });
    afterEach(() => provider.close());

    const aPerson = () => {
      const sub = randomUUID();
      provider.people.set(sub, { sub, email: `${sub}@${mailDomain}`, name: "Grace" });
      return sub;
    };
    /** Begins at the custom domain, as far as the way back from the provider. */
    const begin = async () => {
      const begun = await atHost(server, own.domain, { path: start() });
      assert.equal(begun.status, 302, begun.body);
      const { at } = await aBrowser(aPerson()).go(begun.headers.location!);
      return { begun, at, cookie: cookiesOf(begun) };
    };

    it("ends where it began: at the custom domain", async () => {
      const { begun, at, cookie } = await begin();
      assert.equal(at.origin + at.pathname, callback(`https://${own.domain}`));
      const [line] = begun.headers["set-cookie"] ?? [];
      assert.match(line!, /^__Host-laurel-sso=.*; Path=\/; HttpOnly; Secure; SameSite=None/);
      const back = await atHost(server, own.domain, { path: pathOf(at), headers: { cookie } });
      assert.equal(back.status, 302, back.body);
      const { access_token: token = "" } = told(new URL(back.headers.location!));
      const me = must(await server.get("/api/v1/auth/me", { token }), 200);
      assert.equal(me.user.tenantId, tenant.tenantId);
    });

    it("ends nowhere else, whatever cookie comes along", async () => {
      const { at, cookie } = await begin();
      const secret = cookie.replace(/^[^=]*=/, "");
      const path = pathOf(at);
      const headers = { cookie: `${cookie}; laurel-sso=${secret}` };
      const here = await atHost(server, new URL(server.url).host, { path, headers });
      assert.equal(here.status, 400, here.body);
      assert.match(here.body, /OAUTH_STATE_INVALID/);
      assert.equal((await atHost(server, theirs.domain, { path, headers })).status, 404);
      const back = await atHost(server, own.domain, { path, headers });
      assert("access_token" in told(new URL(back.headers.location!)), "the others have left it unchanged");
    });

    it("goes on at PUBLIC_URL with a domain, and without one", async () => {
      const come = async () => told((await aBrowser(aPerson()).go(ssoUrl(server, tenant))).at);
      assert("access_token" in (await come()));
      await removeDomain(api, tenant, own.id);
      assert("access_token" in (await come()));
    });

    it("takes no host for its own that is none, and no forwarded one", async () => {
      const calls = [
        await atHost(server, EVIL, { path: start() }),
        await atHost(server, new URL(server.url).host, {
          path: start(),
          headers: { "X-Forwarded-Host": EVIL, Forwarded: `host=${EVIL}` },
        }),
      ];
      for (const { headers, status } of calls) {
        assert.equal(status, 302);
        assert.equal(new URL(headers.location!).searchParams.get("redirect_uri"), callback(server.url));
        assert.doesNotMatch(JSON.stringify(headers), /evil/);
      }
    });

    it("is found by the address at the domain of its tenant and at PUBLIC_URL alone", async () => {
      const ask = async (host: string) => {
        const body = { email: `ada@${mailDomain}` };
        const answer = await atHost(server, host, { path: "/v1/auth/sso/discover", method: "POST", body });
        return JSON.parse(answer.body).authUrl as string | null;
      };
      const found = `/auth/sso/${tenant.tenantId}`;
      const hosts = [new URL(server.url).host, own.domain, theirs.domain, EVIL];
      assert.deepEqual(await Promise.all(hosts.map(ask)), [found, found, null, found]);
    });
  });

  describe("by SAML", () => {
    const idp = aSigningKey();
    const acs = (at: string) => `${at}/api/v1/auth/sso/saml/${tenant.tenantId}/acs`;
    const metadataPath = () => `/api/v1/auth/sso/saml/${tenant.tenantId}/metadata`;
    const entityId = () => `${server.url}${metadataPath()}`;
    beforeEach(async () => {
      must(await putSso(server, tenant, samlConfig(idp.cert, { autoProvision: true })), 200);
    });

    const begin = async () => {
      const begun = await atHost(server, own.domain, { path: start() });
      const query = new URL(begun.headers.location!).searchParams;
      const xml = inflateRawSync(Buffer.from(query.get("SAMLRequest")!, "base64")).toString();
      const part = (pattern: RegExp) => pattern.exec(xml)?.[1] ?? "";
      return {
        cookie: cookiesOf(begun),
        relayState: query.get("RelayState")!,
        requestId: part(/ ID="([^"]*)"/),
        acsUrl: part(/AssertionConsumerServiceURL="([^"]*)"/),
        spEntityId: part(/<saml:Issuer[^>]*>([^<]*)</),
      };
    };
    type Begun = Awaited<ReturnType<typeof begin>>;
    const post = (host: string, asked: Begun, acsUrl = asked.acsUrl) => {
      const parts = partsOf({ ...asked, acsUrl }, `${randomUUID()}@${mailDomain}`);
      const xml = signAssertion(responseXml(parts), idp);
      const form = { SAMLResponse: Buffer.from(xml).toString("base64"), RelayState: asked.relayState };
      return atHost(server, host, {
        path: pathOf(asked.acsUrl),
        method: "POST",
        body: new URLSearchParams(form),
        headers: { cookie: asked.cookie },
      });
    };

    it("asks for an answer at the domain, as the same service provider, and takes it there", async () => {
      const asked = await begin();
      assert.deepEqual([asked.acsUrl, asked.spEntityId], [acs(`https://${own.domain}`), entityId()]);
      const back = await post(own.domain, asked);
      assert.equal(back.status, 302, back.body);
      assert("access_token" in told(new URL(back.headers.location!)), back.headers.location!);
    });

    it("takes no answer there that is meant for PUBLIC_URL", async () => {
      const asked = await begin();
      const back = await post(own.domain, asked, acs(server.url));
      assert.equal(told(new URL(back.headers.location!))["error"], "provider_error");
    });

    it("takes answers that nobody asked for at the host that they name", async () => {
      must(
        await putSso(server, tenant, samlConfig(idp.cert, { autoProvision: true, samlIdpInitiated: true })),
        200,
      );
      const asked = { ...(await begin()), cookie: "", relayState: CONSOLE };
      const parts = (acsUrl: string) =>
        partsOf({ ...asked, acsUrl }, `${randomUUID()}@${mailDomain}`, {
          inResponseTo: null,
          responseInResponseTo: null,
        });
      const send = async (acsUrl: string) => {
        const xml = signAssertion(responseXml(parts(acsUrl)), idp);
        const { headers } = await atHost(server, own.domain, {
          path: pathOf(asked.acsUrl),
          method: "POST",
          body: new URLSearchParams({
            SAMLResponse: Buffer.from(xml).toString("base64"),
            RelayState: CONSOLE,
          }),
        });
        return told(new URL(headers.location!));
      };
      assert("code" in (await send(asked.acsUrl)));
      assert.equal((await send(acs(server.url)))["error"], "provider_error");
    });

    it("does not change for a provider that knows PUBLIC_URL, with a domain or without", async () => {
      const come = async () => {
        const asked = await toIdp(server, tenant);
        assert.deepEqual([asked.acsUrl, asked.spEntityId], [acs(server.url), entityId()]);
        const parts = partsOf(asked, `${randomUUID()}@${mailDomain}`);
        return bring(asked, signAssertion(responseXml(parts), idp));
      };
      assert("access_token" in (await come()));
      await removeDomain(api, tenant, own.id);
      assert("access_token" in (await come()));
    });

    it("has one metadata for both hosts, with PUBLIC_URL as the default, and none elsewhere", async () => {
      const read = async (host: string) => (await atHost(server, host, { path: metadataPath() })).body;
      const xml = await read(own.domain);
      assert.equal(await read(new URL(server.url).host), xml);
      assert(xml.includes(`entityID="${entityId()}"`));
      const services = [...xml.matchAll(/index="(\d)" isDefault="(\w+)"\s[^>]*Location="([^"]*)"/g)];
      assert.deepEqual(
        services.map(([, ...parts]) => parts),
        [
          ["0", "true", acs(server.url)],
          ["1", "false", acs(`https://${own.domain}`)],
        ],
      );
      const refused = await atHost(server, theirs.domain, { path: metadataPath() });
      assert.equal(refused.status, 404);
    });

    it("is shown with the addresses to register of domains that are served, besides the old", async () => {
      const read = async () => must(await server.get("/api/v1/enterprise/sso", { token: tenant.token }), 200);
      const oidc = `/api/v1/auth/sso/oidc/${tenant.tenantId}/callback`;
      const shown = {
        domain: own.domain,
        acsUrl: acs(`https://${own.domain}`),
        oidcRedirectUri: `https://${own.domain}${oidc}`,
      };
      const { spEntityId, acsUrl, oidcRedirectUri, customDomains } = await read();
      assert.deepEqual(customDomains, [shown]);
      await setDomain(api, own.id, sql`status = 'DEGRADED'`);
      assert.deepEqual((await read()).customDomains, [shown]);
      await setDomain(api, own.id, sql`status = 'VERIFIED'`);
      assert.deepEqual((await read()).customDomains, []);
      await removeDomain(api, tenant, own.id);
      const after = await read();
      assert.deepEqual(after.customDomains, []);
      assert.deepEqual(
        [after.spEntityId, after.acsUrl, after.oidcRedirectUri],
        [spEntityId, acsUrl, oidcRedirectUri],
      );
      assert.deepEqual([acsUrl, oidcRedirectUri], [acs(server.url), `${server.url}${oidc}`]);
    });
  });
});
