import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { aServedDomain, atHost, pathOf, removeDomain, setDomain } from "../support/domains/served.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
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
  /** Where the link of the next mail about a password leads. */
  const origin = async (): Promise<string> => {
    const { email } = await aMember(api, tenant.tenantId, "VIEWER");
    must(await api.post("/api/v1/auth/forgot-password", { email }), 200);
    const { text = "" } = await aMailTo(email, /password/i);
    return new URL(/https?:\/\/\S+reset-password\?token=\S+/.exec(text)![0]).origin;
  };
  const console_ = () => api.app.config.consoleUrl;

  it("lead there when an OWNER wants that, to the console, while the domain is the tenant's", async () => {
    assert.equal(await origin(), console_(), "a domain alone changes nothing");
    assert.equal(must(await patch({ linkDomain: own.domain }), 200).linkDomain, own.domain);
    assert.equal(await origin(), `https://${own.domain}`);
    for (const doubt of [
      sql`failing_since = now()`,
      sql`failing_since = null, txt = 'UNKNOWN'`,
      sql`txt = 'OK', status = 'DEGRADED'`,
      sql`status = 'SUSPENDED'`,
    ]) {
      await setDomain(api, own.id, doubt);
      assert.equal(await origin(), console_());
    }
    await setDomain(api, own.id, sql`status = 'ACTIVE'`);
    assert.equal(await origin(), `https://${own.domain}`);
    await removeDomain(api, tenant, own.id);
    assert.equal(must(await api.get(TENANT, { token: tenant.token }), 200).linkDomain, null);
    assert.equal(await origin(), console_());
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
