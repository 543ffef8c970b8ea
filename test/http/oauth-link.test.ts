import assert from "node:assert/strict";
import { randomInt, randomUUID } from "node:crypto";
import { hashRandomSecret } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { Tenant as TenantEntity } from "../../src/domain/accounts/tenants/tenant.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { type AppFactor, withTotp } from "../support/mfa/second-factor.ts";
import { startFakeGithub } from "../support/providers/fake-github.ts";
import { newPersonAt, startHostileProvider } from "../support/providers/hostile-provider.ts";
import { aBrowser, CONSOLE, startOAuthServer, startUrl, told } from "../support/providers/oauth.ts";
import { pluck } from "../support/pluck.ts";

describe("a link of a provider", () => {
  let login: string;

  const path = "/api/v1/auth/oauth/github";
  const link = (token: string, proof: object = {}, response_mode = "query") =>
    server.post(`${path}/link`, { redirect_uri: CONSOLE, response_mode, ...proof }, { token });
  const unlink = (token: string, body?: object) =>
    server.request("DELETE", path, body === undefined ? { token } : { token, body });
  const open = async (authUrl: string) => told((await aBrowser(login).go(authUrl)).at);
  const complete = async (token: string, proof?: object, mode?: string) =>
    open(must(await link(token, proof, mode), 200).authUrl);
  /** As if the session had begun, and proved its factor, an hour ago. */
  const age = (userId: string) =>
    api.sql`
      update sessions set mfa_at = mfa_at - interval '1 hour', created_at = created_at - interval '1 hour'
      where user_id = ${userId}::uuid`;
  const sessionsOf = (userId: string) => api.sql<{
    id: string;
    method: string;
    began: string;
    proved: string;
  }>`
    select id::text as id, method, created_at::text as began, mfa_at::text as proved from sessions
    where user_id = ${userId}::uuid order by id`;
  const sessionOf = async (token = "") => (await api.app.tokens.verifyAccess(token)).sid;

  const api = madeOnce(startApp);
  const github = madeOnce(() => startFakeGithub());
  const server = madeOnce(() => startOAuthServer(api, async () => ({ google: undefined, github })));
  const tenant = madeForEach(() => aTenant(api));
  beforeEach(async () => {
    login = randomUUID();
    const emails = [{ email: `${login}@example.com`, primary: true, verified: true, visibility: null }];
    github.people.set(login, { id: randomInt(2 ** 40), name: "Ada", email: null, emails });
  });
  after(async () => {
    await server.close();
    await github.close();
  });

  describe("and its end", () => {
    it("take the password of an account that has one, and not the session alone", async () => {
      assertError(await link(tenant.token), 400);
      const wrong = { currentPassword: "Wrong-horse-7" };
      assertError(await link(tenant.token, wrong), 403, "INVALID_CREDENTIALS");
      const right = { currentPassword: tenant.password };
      assert("access_token" in (await complete(tenant.token, right)));
      assertError(await unlink(tenant.token), 400);
      assertError(await unlink(tenant.token, wrong), 403, "INVALID_CREDENTIALS");
      must(await unlink(tenant.token, right), 200);
    });

    it("take the second factor too, unless the session proved one in the last 10 minutes", async () => {
      const factor = await withTotp(api, tenant);
      const { password: currentPassword } = tenant;
      must(await link(tenant.token, { currentPassword }), 200);
      await age(tenant.userId);
      assertError(await link(tenant.token, { currentPassword }), 403, "REAUTHENTICATION_REQUIRED");
      const wrong = { currentPassword, code: "000 000" };
      assertError(await link(tenant.token, wrong), 403, "MFA_CODE_INVALID");
      assert(
        "access_token" in (await complete(tenant.token, { currentPassword, code: await factor.code() })),
      );
      await age(tenant.userId);
      assertError(await unlink(tenant.token, { currentPassword }), 403, "REAUTHENTICATION_REQUIRED");
      must(await unlink(tenant.token, { currentPassword, code: await factor.code() }), 200);
    });

    it("take a sign-in of the last 10 minutes of an account that has neither", async () => {
      const member = await aMember(api, tenant.tenantId, "VIEWER");
      assert("access_token" in (await complete(member.token)));
      await age(member.userId);
      assertError(await link(member.token), 403, "REAUTHENTICATION_REQUIRED");
      assertError(await unlink(member.token), 403, "REAUTHENTICATION_REQUIRED");
    });
  });

  describe("begins no session", () => {
    let factor: AppFactor;
    const prove = async () => ({ currentPassword: tenant.password, code: await factor.code() });
    beforeEach(async () => {
      factor = await withTotp(api, tenant);
      await age(tenant.userId);
    });

    it("but gives further tokens of the one that asked for it, which stays as old as it is", async () => {
      await complete(tenant.token, await prove());
      await age(tenant.userId);
      const before = await sessionsOf(tenant.userId);
      const answer = await complete(tenant.token, await prove());
      assert.deepEqual(Object.keys(answer).toSorted(), [
        "access_token",
        "expires_in",
        "refresh_token",
        "token_type",
      ]);
      assert.equal(await sessionOf(answer["access_token"]), await sessionOf(tenant.token));
      const after = await sessionsOf(tenant.userId);
      // The proof that was asked for is of now.
      assert.ok(after[0]!.proved > before[0]!.proved);
      assert.deepEqual(pluck(after, "id", "method", "began"), pluck(before, "id", "method", "began"));
      assert.equal(after.length, 1);
      const refreshed = await server.post("/api/v1/auth/refresh", { refreshToken: answer["refresh_token"] });
      assert.equal(await sessionOf(must(refreshed, 200).accessToken), await sessionOf(tenant.token));
      assert.equal((await sessionsOf(tenant.userId)).length, 1);
    });

    it("nor by a code, which gives nothing once that session has ended", async () => {
      const { code: first } = await complete(tenant.token, await prove(), "code");
      const { code: second } = await complete(tenant.token, await prove(), "code");
      const exchange = (code?: string) => server.post("/api/v1/auth/oauth/exchange", { code });
      const answer = await exchange(first);
      assert.equal(await sessionOf(must(answer, 200).accessToken), await sessionOf(tenant.token));
      assert.equal((await sessionsOf(tenant.userId)).length, 1);
      must(await server.post("/api/v1/auth/logout", {}, { token: tenant.token }), 200);
      assertError(await exchange(second), 400, "OAUTH_CODE_INVALID");
    });

    it("that would count as a sign-in: what asks for a new one is refused all the same", async () => {
      const member = await aMember(api, tenant.tenantId, "VIEWER");
      const { authUrl } = must(await link(member.token), 200);
      await age(member.userId);
      const { access_token: token = "" } = await open(authUrl);
      const answer = await server.post("/api/v1/auth/mfa/totp/setup", {}, { token });
      assertError(answer, 403, "REAUTHENTICATION_REQUIRED");
    });
  });
});

describe("linking of providers", () => {
  const api = madeOnce(startApp);
  const google = madeOnce(startHostileProvider);
  const github = madeOnce(startFakeGithub);
  const server = madeOnce(() => startOAuthServer(api, async () => ({ google, github })));
  const tenant = madeForEach(() => aTenant(api));

  /** Everybody has the same password, or none, which asks for nothing after a sign-in of just now. */
  const link = (token: string | undefined, body: object = { redirect_uri: CONSOLE }, provider = "google") =>
    server.post(
      `/api/v1/auth/oauth/${provider}/link`,
      { currentPassword: tenant.password, ...body },
      token === undefined ? {} : { token },
    );
  const open = async (token: string, provider = "google", person = "nobody") => {
    const { authUrl } = must(await link(token, undefined, provider), 200);
    return told((await aBrowser(person).go(authUrl)).at);
  };
  const identitiesOf = async (token: string): Promise<string[]> => {
    const { body } = await server.get("/api/v1/auth/oauth/identities", { token });
    return body.identities.map(({ provider }: { provider: string }) => provider);
  };
  const unlink = (token: string, provider: string) =>
    server.request("DELETE", `/api/v1/auth/oauth/${provider}`, {
      token,
      body: { currentPassword: tenant.password },
    });
  const asGoogle = (claims: object = {}) => newPersonAt(google, claims);
  const asGithub = (): string => {
    const login = randomUUID();
    const emails = [{ email: `${login}@example.com`, primary: true, verified: true, visibility: null }];
    github.people.set(login, { id: randomInt(2 ** 40), name: "Ada", email: null, emails });
    return login;
  };

  beforeEach(() => {
    google.malice = {};
    asGoogle();
  });
  after(async () => {
    await server.close();
    await google.close();
    await github.close();
  });

  describe("POST /auth/oauth/{provider}/link", () => {
    it("gives an address that links the provider, which is another way in from then on", async () => {
      const answer = await open(tenant.token);
      assert("access_token" in answer, JSON.stringify(answer));
      assert.deepEqual(await identitiesOf(tenant.token), ["google"]);
      await aMailTo(tenant.email, /google/i);
      const login = told((await aBrowser().go(startUrl(server, "google"))).at);
      const { sub } = await api.app.tokens.verifyAccess(login["access_token"]!);
      assert.equal(sub, tenant.userId);
    });

    it("needs an access token, a provider that is set up and a registered way back", async () => {
      assertError(await link(undefined), 401, "CREDENTIALS_MISSING");
      const byKey = { key: tenant.key };
      const body = { redirect_uri: CONSOLE };
      assertError(
        await server.post("/api/v1/auth/oauth/google/link", body, byKey),
        403,
        "INSUFFICIENT_SCOPE",
      );
      assertError(await link(tenant.token, body, "gitlab"), 404);
      const elsewhere = { redirect_uri: "https://evil.example" };
      assertError(await link(tenant.token, elsewhere), 400, "REDIRECT_URI_NOT_ALLOWED");
      assertError(await link(tenant.token, {}), 400);
      const bare = await api.post("/api/v1/auth/oauth/google/link", body, { token: tenant.token });
      assertError(bare, 503, "OAUTH_NOT_CONFIGURED");
    });

    it("lets back to addresses of the user's own tenant, and of no other", async () => {
      const redirect_uri = `https://${randomUUID()}.example/back`;
      const id = tenant.tenantId;
      await api.app.transact(({ em }) =>
        em.nativeUpdate(TenantEntity, { id }, { redirectUris: [redirect_uri] }),
      );
      must(await link(tenant.token, { redirect_uri }), 200);
      const other = await aTenant(api);
      assertError(await link(other.token, { redirect_uri }), 400, "REDIRECT_URI_NOT_ALLOWED");
    });

    it("is open to members whom nobody has accepted yet", async () => {
      const member = await aMember(api, tenant.tenantId, "VIEWER", "PENDING");
      must(await link(member.token), 200);
    });

    it("gives an address that works once, for 2 minutes, with its provider", async () => {
      const { authUrl } = must(await link(tenant.token), 200);
      const wrong = authUrl.replace("/google?", "/github?");
      assert.equal((await aBrowser().visit(wrong)).status, 400);
      const answers = await Promise.all(Array.from({ length: 10 }, () => aBrowser().visit(authUrl)));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [302, ...Array<number>(9).fill(400)]);
      const late = must(await link(tenant.token), 200).authUrl;
      const hash = hashRandomSecret(new URL(late).searchParams.get("ticket")!);
      await api.sql`
        update oauth_flows set expires_at = expires_at - interval '2 minutes'
        where state_hash = ${hash}`;
      assert.equal((await aBrowser().visit(late)).status, 400);
    });
  });

  describe("a link", () => {
    it("never takes an identity from the user who has it", async () => {
      await open(tenant.token);
      const other = await aTenant(api);
      assert.equal((await open(other.token))["error"], "identity_already_linked");
      assert.deepEqual(await identitiesOf(other.token), []);
      assert.deepEqual(await identitiesOf(tenant.token), ["google"]);
    });

    it("never takes an identity whose address another user has, who would log in with it", async () => {
      const victim = await aTenant(api);
      asGoogle({ email: victim.email });
      assert.equal((await open(tenant.token))["error"], "identity_already_linked");
    });

    it("of what is linked already changes nothing", async () => {
      await open(tenant.token);
      assert("access_token" in (await open(tenant.token)));
      assert.deepEqual(await identitiesOf(tenant.token), ["google"]);
    });

    it("of a second account of a provider is refused", async () => {
      await open(tenant.token);
      asGoogle();
      assert.equal((await open(tenant.token))["error"], "identity_already_linked");
    });

    it("needs no address that the provider vouches for: two proofs of one browser are enough", async () => {
      asGoogle({ email_verified: false });
      assert("access_token" in (await open(tenant.token)));
      const { body } = await server.get("/api/v1/auth/oauth/identities", { token: tenant.token });
      assert.equal(body.identities[0].email, null);
    });

    it("gives one identity to one of two users who link it at once", async () => {
      const other = await aTenant(api);
      const answers = await Promise.all([open(tenant.token), open(other.token)]);
      assert.deepEqual(answers.map((one) => one["error"] ?? "linked").toSorted(), [
        "identity_already_linked",
        "linked",
      ]);
    });

    it("of a user who was disabled meanwhile is refused", async () => {
      const { authUrl } = must(await link(tenant.token), 200);
      const [email, disabledAt] = [tenant.email, new Date()];
      await api.app.transact(({ em }) => em.nativeUpdate(User, { email }, { disabledAt }));
      assert.equal(told((await aBrowser().go(authUrl)).at)["error"], "account_disabled");
    });
  });

  describe("DELETE /auth/oauth/{provider}", () => {
    it("takes the provider away; it is no way in from then on", async () => {
      await open(tenant.token);
      assert.deepEqual(must(await unlink(tenant.token, "google"), 200), { deleted: true });
      assert.deepEqual(await identitiesOf(tenant.token), []);
      const login = told((await aBrowser().go(startUrl(server, "google"))).at);
      assert.equal(login["error"], "account_not_found");
      assertError(await unlink(tenant.token, "google"), 404);
      assertError(await unlink(tenant.token, "gitlab"), 404);
    });

    it("takes nobody else's: without one of your own there is nothing", async () => {
      await open(tenant.token);
      const other = await aTenant(api);
      const colleague = await aMember(api, tenant.tenantId, "ADMIN");
      for (const token of [other.token, colleague.token]) assertError(await unlink(token, "google"), 404);
      assertError(await server.delete("/api/v1/auth/oauth/google"), 401, "CREDENTIALS_MISSING");
      assert.deepEqual(await identitiesOf(tenant.token), ["google"]);
    });

    it("never takes the last way in, also when two requests come at once", async () => {
      const member = await aMember(api, tenant.tenantId, "VIEWER");
      await open(member.token);
      assertError(await unlink(member.token, "google"), 409, "INVALID_STATE");
      assert("access_token" in (await open(member.token, "github", asGithub())));
      const answers = await Promise.all(["google", "github"].map((one) => unlink(member.token, one)));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409]);
      assert.equal((await identitiesOf(member.token)).length, 1);
    });
  });
});
