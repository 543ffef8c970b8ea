import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { isRedirectUri } from "../../src/domain/accounts/oauth/provider.ts";
import { Tenant as TenantEntity } from "../../src/domain/accounts/tenants/tenant.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { startHostileProvider } from "../support/providers/hostile-provider.ts";
import { aBrowser, CONSOLE, startOAuthServer, startUrl } from "../support/providers/oauth.ts";
import { madeOnce } from "../support/made.ts";

const OWN_CONSOLE = "https://console.tenant.example/back";

describe("OAuth", () => {
  const path = "/api/v1/auth/oauth/google";
  const start = (parameters: Record<string, string> | [string, string][]) =>
    server.get(`${path}?${new URLSearchParams(parameters).toString()}`);

  const api = madeOnce(startApp);
  const provider = madeOnce(() => startHostileProvider());
  const server = madeOnce(() => startOAuthServer(api, async () => ({ google: provider, github: undefined })));
  const tenant = madeOnce(() => aTenant(api));
  before(async () => {
    await api.app.transact(({ em }) =>
      em.nativeUpdate(TenantEntity, { id: tenant.tenantId }, { redirectUris: [OWN_CONSOLE] }),
    );
  });
  after(async () => {
    await server.close();
    await provider.close();
  });

  describe("GET /auth/oauth/providers", () => {
    it("lists both providers and says which are set up", async () => {
      const { body } = await server.get("/api/v1/auth/oauth/providers");
      assert.deepEqual(body, {
        providers: [
          { id: "google", name: "Google", enabled: true, authUrl: "/auth/oauth/google" },
          { id: "github", name: "GitHub", enabled: false, authUrl: "/auth/oauth/github" },
        ],
      });
    });
  });

  describe("GET /auth/oauth/{provider}", () => {
    it("sends the browser to the provider, with state, nonce, PKCE and a cookie", async () => {
      const { status, headers } = await start({ redirect_uri: CONSOLE });
      assert.equal(status, 302);
      const location = new URL(headers.get("location")!);
      assert.equal(location.origin + location.pathname, `${provider.issuer}/authorize`);
      const { state, nonce, code_challenge, ...rest } = Object.fromEntries(location.searchParams);
      for (const secret of [state, nonce, code_challenge]) assert.match(secret ?? "", /^[\w-]{43}$/);
      assert.deepEqual(rest, {
        client_id: provider.clientId,
        redirect_uri: `${server.url}/api/v1/auth/oauth/google/callback`,
        response_type: "code",
        scope: "openid email profile",
        code_challenge_method: "S256",
      });
      assert.equal(headers.get("referrer-policy"), "no-referrer");
      assert.equal(headers.get("cache-control"), "no-store");
      assert.match(
        headers.get("set-cookie")!,
        /^laurel-oauth=[\w-]{43}; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax$/i,
      );
    });

    it("over https has a cookie that no other host can set", async () => {
      const publicUrl = "https://laurel.test.example";
      const secure = await startOAuthServer(api, async () => ({ google: provider, github: undefined }), {
        publicUrl,
      });
      const { headers } = await secure.get(`${path}?redirect_uri=${encodeURIComponent(CONSOLE)}`);
      const cookie = headers.get("set-cookie")!;
      assert.match(cookie, /^__Host-laurel-oauth=[\w-]{43};/);
      for (const part of ["Secure", "HttpOnly", "Path=/", "SameSite=Lax"])
        assert(cookie.includes(`; ${part}`));
      assert(!/domain/i.test(cookie));
      await secure.close();
    });

    it("keeps no secret of a flow in clear", async () => {
      const invitation = randomUUID();
      const { headers } = await start({
        redirect_uri: CONSOLE,
        flow: "signup",
        invitation_token: invitation,
      });
      const { state, nonce } = Object.fromEntries(new URL(headers.get("location")!).searchParams);
      const hash = createHash("sha256").update(state!).digest("hex");
      const rows = await api.sql`select * from oauth_flows where state_hash = ${hash}`;
      assert.equal(rows.length, 1);
      const stored = JSON.stringify(rows);
      const browser = /=([\w-]+)/.exec(headers.get("set-cookie")!)![1]!;
      for (const secret of [state!, nonce!, browser, invitation]) assert(!stored.includes(secret));
    });

    it("answers 404 for an unknown provider and 503 for one that is not set up", async () => {
      for (const name of ["gitlab", "Google", "__proto__", "constructor"])
        assertError(await server.get(`/api/v1/auth/oauth/${name}?redirect_uri=x`), 404);
      const github = await server.get(
        `/api/v1/auth/oauth/github?redirect_uri=${encodeURIComponent(CONSOLE)}`,
      );
      assertError(github, 503, "OAUTH_NOT_CONFIGURED");
      assertError(await api.get(`${path}/callback?state=x`), 503, "OAUTH_NOT_CONFIGURED");
    });

    it("refuses flows and parameters that make no sense", async () => {
      assertError(await start({ redirect_uri: CONSOLE, flow: "takeover" }), 400);
      assertError(await start({ redirect_uri: CONSOLE, ticket: "x" }), 400);
      assertError(await start({ redirect_uri: CONSOLE, invitation_token: "x" }), 400);
      assertError(await start({ redirect_uri: CONSOLE, tenantId: randomUUID() }), 404);
      const join = { redirect_uri: OWN_CONSOLE, flow: "signup", tenantId: tenant.tenantId };
      assertError(await start(join), 400, "INVITATION_REQUIRED");
    });

    it("never begins a link without the ticket of a session", async () => {
      assertError(await start({ redirect_uri: CONSOLE, flow: "link" }), 401, "CREDENTIALS_MISSING");
      assertError(await start({ flow: "link", ticket: "forged" }), 400, "OAUTH_STATE_INVALID");
    });

    it("tells the console when the provider cannot be reached, and recovers", async () => {
      const other = await startHostileProvider();
      const down = await startOAuthServer(api, async () => ({ google: other, github: undefined }));
      other.malice = { isDown: true };
      const { at } = await aBrowser().go(startUrl(down, "google"));
      assert.equal(at.searchParams.get("error"), "temporarily_unavailable");
      other.malice = {};
      const again = await down.get(`${path}?redirect_uri=${encodeURIComponent(CONSOLE)}`);
      assert(again.headers.get("location")!.startsWith(other.issuer));
      await down.get(`${path}?redirect_uri=${encodeURIComponent(CONSOLE)}`);
      assert.equal(other.discoveries(), 1, "what was discovered is kept");
      await down.close();
      await other.close();
    });
  });

  describe("redirect_uri", () => {
    const host = new URL(CONSOLE).host;
    const TRICKS: Record<string, string> = {
      "an address that begins with it": `${CONSOLE}.evil.example`,
      "a longer path": CONSOLE.replace("/oauth", "/oauth/evil"),
      "a sub-domain": CONSOLE.replace(host, `evil.${host}`),
      "a host that begins with it": CONSOLE.replace(host, `${host}.evil.example`),
      "another port": CONSOLE.replace(host, `${host}:8443`),
      "the port spelled out": CONSOLE.replace(host, `${host}:443`),
      "a path that climbs": CONSOLE.replace("/oauth", "/oauth/../evil"),
      "a path that climbs back": CONSOLE.replace("/oauth", "/evil/../oauth"),
      "an encoded path that climbs": CONSOLE.replace("/oauth", "/oauth/%2e%2e/evil"),
      "a user": CONSOLE.replace(host, `${host}@evil.example`),
      "a user before the host": CONSOLE.replace(host, `evil@${host}`),
      "an empty user": CONSOLE.replace(host, `@${host}`),
      "a fragment": `${CONSOLE}#evil`,
      "an empty fragment": `${CONSOLE}#`,
      "another case": CONSOLE.toUpperCase(),
      "another case of the path": CONSOLE.replace("/oauth", "/OAuth"),
      "a slash at the end": CONSOLE.replace("/oauth", "/oauth/"),
      "encoded letters": CONSOLE.replace("/oauth", "/%6fauth"),
      "encoded twice": encodeURIComponent(CONSOLE),
      "another scheme": CONSOLE.replace("https:", "http:"),
      "no scheme": CONSOLE.replace("https:", ""),
      "a script": "javascript:alert(document.domain)//https://console.test.example/oauth",
      "a data address": "data:text/html,hello",
      backslashes: CONSOLE.replace("https://", "https:\\\\"),
      "a backslash before the host": CONSOLE.replace(host, `evil.example\\@${host}`),
      "a blank before it": ` ${CONSOLE}`,
      "a tab in it": CONSOLE.replace("/oauth", "/oa\tuth"),
      "a line break after it": `${CONSOLE}\r\nSet-Cookie: a=b`,
      "a further parameter": `${CONSOLE}&next=https://evil.example`,
      "no parameter": CONSOLE.replace(/\?.*/, ""),
      "another script of the same letters": CONSOLE.replace("console", "сonsole"),
      "a dot after the host": CONSOLE.replace(host, `${host}.`),
      nothing: "",
    };
    for (const [trick, uri] of Object.entries(TRICKS)) {
      it(`must be a registered one: not ${trick}`, async () => {
        const answer = await start({ redirect_uri: uri });
        assertError(answer, 400, "REDIRECT_URI_NOT_ALLOWED");
        assert.equal(answer.headers.get("location"), null);
        assert.equal(answer.headers.get("set-cookie"), null);
      });
    }

    it("must be there, once", async () => {
      assertError(await start({}), 400, "REDIRECT_URI_NOT_ALLOWED");
      const twice: [string, string][] = [
        ["redirect_uri", CONSOLE],
        ["redirect_uri", "https://evil.example"],
      ];
      assertError(await start(twice), 400);
      const nested = await server.get(`${path}?redirect_uri[]=${encodeURIComponent(CONSOLE)}`);
      assertError(nested, 400);
    });

    it("of a tenant counts where the tenant is named, and nowhere else", async () => {
      const own = await start({ redirect_uri: OWN_CONSOLE, tenantId: tenant.tenantId });
      assert.equal(own.status, 302);
      assertError(await start({ redirect_uri: OWN_CONSOLE }), 400, "REDIRECT_URI_NOT_ALLOWED");
      const { tenantId } = await aTenant(api);
      assertError(await start({ redirect_uri: OWN_CONSOLE, tenantId }), 400, "REDIRECT_URI_NOT_ALLOWED");
    });

    it("is refused when it was registered without TLS, with a user or with a fragment", async () => {
      const redirectUris = ["http://plain.example/", "https://user@console.example/", "https://a.example/#b"];
      const { tenantId } = await aTenant(api);
      await api.app.transact(({ em }) => em.nativeUpdate(TenantEntity, { id: tenantId }, { redirectUris }));
      for (const redirect_uri of redirectUris)
        assertError(await start({ redirect_uri, tenantId }), 400, "REDIRECT_URI_NOT_ALLOWED");
    });

    it("has https, no user and no fragment even when it was registered without", () => {
      for (const uri of ["https://a.example", "https://a.example/", "https://a.example/b?c=d"])
        assert(isRedirectUri(uri, true), uri);
      const local = ["http://localhost:3000/a", "http://127.0.0.1/a"];
      for (const uri of local) assert(isRedirectUri(uri, false) && !isRedirectUri(uri, true), uri);
      const bad = [
        "http://a.example/",
        "https://u@a.example/",
        "https://u:p@a.example/",
        "https://a.example/#b",
      ];
      bad.push(
        "http://localhost.evil.example/",
        "ftp://localhost/",
        "https://a.example/../b",
        "a",
        "HTTPS://a.b/",
      );
      bad.push(
        "http://127.0.0.1.nip.io/",
        "http://[::1]/",
        "https:a.example",
        `https://a.example/${"b".repeat(2_048)}`,
      );
      for (const uri of bad) assert(!isRedirectUri(uri, false), uri);
    });
  });
});
