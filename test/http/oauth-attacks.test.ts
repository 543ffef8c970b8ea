import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { hashRandomSecret } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { Tenant as TenantEntity } from "../../src/domain/accounts/tenants/tenant.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { startFakeGithub } from "../support/providers/fake-github.ts";
import {
  answerOf,
  assertCountsOnce,
  assertOfOneBrowser,
  assertRefused,
  assertStateNeeded,
  changed,
  endOf,
  startHostileProvider,
} from "../support/providers/hostile-provider.ts";
import {
  aBrowser,
  type Browser,
  CONSOLE,
  type OAuthServer,
  startOAuthServer,
  startUrl,
  told,
} from "../support/providers/oauth.ts";
import { startOpenIdProvider, type TestProvider } from "../support/providers/openid-provider.ts";
import { madeOnce } from "../support/made.ts";

describe("attacks on OAuth", () => {
  const api = madeOnce(startApp);
  const provider = madeOnce(startHostileProvider);
  const github = madeOnce(startFakeGithub);
  const server = madeOnce(() => startOAuthServer(api, async () => ({ google: provider, github })));
  /** The victim: has an account and is signed in at the provider. */
  const tenant = madeOnce(() => aTenant(api));

  /** As far as the callback, which is not opened yet. */
  const toCallback = async (browser: Browser, parameters = {}, at = server): Promise<string> => {
    const { at: callback } = await browser.go(
      startUrl(at, "google", parameters),
      `${at.url}/api/v1/auth/oauth/google/callback`,
    );
    return callback.href;
  };
  const comeBack = async () => endOf(aBrowser(), startUrl(server, "google"));

  before(async () => {
    await api.app.transact(({ em }) =>
      em.nativeUpdate(User, { email: tenant.email }, { emailVerified: true }),
    );
  });
  beforeEach(() => {
    provider.malice = {};
    provider.person = { sub: "victim", email: tenant.email, email_verified: true };
  });
  after(async () => {
    await server.close();
    await provider.close();
    await github.close();
  });

  it("fail only for what each test changes: the provider itself can be signed in with", async () => {
    assert("access_token" in (await comeBack()));
  });

  describe("with the state", () => {
    it("unknown, absent or twice: 400, and nobody is sent anywhere", async () => {
      const browser = aBrowser();
      const callback = await toCallback(browser);
      await assertStateNeeded(browser, callback);
      assertError(await answerOf(browser, changed(callback, "state", "x".repeat(5_000))), 400);
      assert("access_token" in (await endOf(browser, callback)), "the flow itself goes on");
    });

    it("of another browser: 400, so nobody is signed in as somebody else", () =>
      assertOfOneBrowser((browser) => toCallback(browser)));

    it("of another tab of one browser: each is completed, in any order, and counts once", async () => {
      const browser = aBrowser();
      const tabs = [await toCallback(browser), await toCallback(browser)];
      for (const tab of tabs) assert("access_token" in told((await browser.go(tab)).at));
      for (const tab of tabs) assert.equal((await browser.visit(tab)).status, 400);
    });

    it("with a cookie that is no secret of ours gives the browser one", async () => {
      const browser = aBrowser();
      for (const planted of ["x", "", "a".repeat(44)]) {
        browser.cookies.set(server.url, new Map([["laurel-oauth", planted]]));
        await toCallback(browser);
        assert.match(browser.cookies.get(server.url)!.get("laurel-oauth")!, /^[\w-]{43}$/);
      }
    });

    it("older than 10 minutes: 400", async () => {
      const browser = aBrowser();
      const callback = await toCallback(browser);
      const hash = hashRandomSecret(new URL(callback).searchParams.get("state")!);
      await api.sql`
        update oauth_flows set expires_at = expires_at - interval '10 minutes'
        where state_hash = ${hash}`;
      assertError(await answerOf(browser, callback), 400, "OAUTH_STATE_INVALID");
    });

    it("of another provider: 400, so no provider can answer for another", async () => {
      const browser = aBrowser();
      const callback = await toCallback(browser);
      const mixed = callback.replace("/google/", "/github/");
      assertError(await answerOf(browser, mixed), 400, "OAUTH_STATE_INVALID");
    });

    it("used before: 400, also when the first use failed", async () => {
      const browser = aBrowser();
      const callback = await toCallback(browser);
      await assertCountsOnce(browser, callback);
      const other = aBrowser();
      const denied = changed(changed(await toCallback(other), "code"), "error", "access_denied");
      const kept = new Map(other.cookies.get(server.url));
      assertRefused(await endOf(other, denied), "access_denied");
      other.cookies.set(server.url, kept);
      assertError(await answerOf(other, denied), 400, "OAUTH_STATE_INVALID");
    });

    it("is a ticket: it was never sent to a provider, so it ends no flow", async () => {
      const link = await server.post(
        "/api/v1/auth/oauth/google/link",
        { redirect_uri: CONSOLE, currentPassword: tenant.password },
        { token: tenant.token },
      );
      const ticket = new URL(link.body.authUrl).searchParams.get("ticket")!;
      const browser = aBrowser();
      const callback = await toCallback(browser);
      assertError(await answerOf(browser, changed(callback, "state", ticket)), 400, "OAUTH_STATE_INVALID");
    });
  });

  describe("with the way back of a tenant", () => {
    const theirs = "https://evil.example/collect";
    it("never get tokens of somebody of another tenant", async () => {
      const evil = await aTenant(api);
      const { tenantId } = evil;
      await api.app.transact(({ em }) =>
        em.nativeUpdate(TenantEntity, { id: tenantId }, { redirectUris: [theirs] }),
      );
      for (const sub of ["victim", "unlinked"]) {
        provider.person = { ...provider.person, sub };
        const { at } = await aBrowser().go(startUrl(server, "google", { tenantId, redirect_uri: theirs }));
        assertRefused(told(at), "account_not_found");
      }
      const identities = await api.get("/api/v1/auth/oauth/identities", { token: tenant.token });
      assert(identities.body.identities.length <= 1);
    });
  });

  describe("on a real provider", () => {
    let google: TestProvider;
    let real: OAuthServer;
    before(async () => {
      real = await startOAuthServer(api, async (url) => {
        google = await startOpenIdProvider(`${url}/api/v1/auth/oauth/google/callback`);
        return { google, github: undefined };
      });
      google.people.set("someone", {
        sub: "someone",
        email: `${randomUUID()}@example.com`,
        email_verified: true,
      });
    });
    after(async () => {
      await real.close();
      await google.close();
    });

    it("a code of another flow is refused by PKCE", async () => {
      const [one, two] = [aBrowser("someone"), aBrowser("someone")];
      const [callback, other] = [
        new URL(await toCallback(one, {}, real)),
        new URL(await toCallback(two, {}, real)),
      ];
      callback.searchParams.set("code", other.searchParams.get("code")!);
      assertRefused(await endOf(one, callback.href));
    });

    it("a changed PKCE challenge is refused", async () => {
      const browser = aBrowser("someone");
      const started = await browser.visit(startUrl(real, "google", { flow: "signup" }));
      const asked = new URL(started.headers.get("location")!);
      asked.searchParams.set("code_challenge", "x".repeat(43));
      assertRefused(told((await browser.go(asked.href)).at));
    });

    it("a code is good once, in a flow of any state", async () => {
      const browser = aBrowser("someone");
      const first = new URL(await toCallback(browser, { flow: "signup" }, real));
      assert("access_token" in (await endOf(browser, first.href)));
      const second = new URL(await toCallback(browser, {}, real));
      second.searchParams.set("code", first.searchParams.get("code")!);
      assertRefused(await endOf(browser, second.href));
    });
  });
});
