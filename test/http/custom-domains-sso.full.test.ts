import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { inflateRawSync } from "node:zlib";
import { sql } from "kysely";
import { aTenant, startApp, type Tenant } from "../support/app/app.ts";
import {
  aServedDomain,
  atHost,
  cookiesOf,
  pathOf,
  removeDomain,
  setDomain,
} from "../support/domains/served.ts";
import { must } from "../support/http/client.ts";
import { aBrowser, CONSOLE, told } from "../support/providers/oauth.ts";
import { startOpenIdProvider } from "../support/providers/openid-provider.ts";
import { aSigningKey, samlConfig } from "../support/sso/saml-config.ts";
import { bring, partsOf, responseXml, signAssertion, toIdp } from "../support/sso/saml-idp.ts";
import { aVerifiedDomain, putSso, ssoUrl, startSsoServer } from "../support/sso/server.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

const EVIL = "login.evil.example.com";

describe("single sign-on at custom domains", () => {
  let tenant: Tenant;
  let other: Tenant;
  let own: { id: string; domain: string };
  let theirs: { id: string; domain: string };
  let mailDomain: string;
  const start = () => pathOf(ssoUrl(server, tenant));

  const api = madeOnce(startApp);
  const server = madeOnce(
    () => startSsoServer(api),
    (made) => made.close(),
  );
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
      const config = {
        provider: "OIDC",
        displayName: "Acme",
        oidcIssuer: provider.issuer,
        oidcClientId: provider.clientId,
        oidcClientSecret: provider.clientSecret,
        autoProvision: true,
      };
      must(await putSso(server, tenant, config), 200);
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

    it("begins at no domain of another tenant", async () => {
      assert.equal((await atHost(server, theirs.domain, { path: start() })).status, 404);
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
      assert("access_token" in told(new URL(back.headers.location!)), back.headers.location);
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
