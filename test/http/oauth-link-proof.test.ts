import assert from "node:assert/strict";
import { randomInt, randomUUID } from "node:crypto";
import { sql } from "kysely";
import { aTenant, startApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { type AppFactor, withTotp } from "../support/mfa/second-factor.ts";
import { startFakeGithub } from "../support/providers/fake-github.ts";
import { aBrowser, CONSOLE, startOAuthServer, told } from "../support/providers/oauth.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

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
    api.app.transact(({ db }) =>
      sql`
        update sessions set mfa_at = mfa_at - interval '1 hour', created_at = created_at - interval '1 hour'
        where user_id = ${userId}::uuid`.execute(db),
    );
  const sessionsOf = (userId: string) =>
    api.app.transact(async ({ db }) => {
      const { rows } = await sql<{ id: string; method: string; began: string; proved: string }>`
        select id::text as id, method, created_at::text as began, mfa_at::text as proved from sessions
        where user_id = ${userId}::uuid order by id`.execute(db);
      return rows;
    });
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
      assert.deepEqual(
        after.map(({ id, method, began }) => [id, method, began]),
        before.map(({ id, method, began }) => [id, method, began]),
      );
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
      assert.ok(answer.headers.get("x-device-token"));
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
