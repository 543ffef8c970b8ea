import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createSecretBox } from "../../src/domain/kernel/secret-box.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { callsOf, madeForEach, madeOnce } from "../support/made.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import {
  anAuthenticator,
  type AppFactor,
  forgetSteps,
  loginsOf,
  totpCode,
  withTotp,
  wrongCode,
} from "../support/mfa/second-factor.ts";
import { githubServer } from "../support/providers/fake-github.ts";
import { aBrowser, CONSOLE, startUrl, told } from "../support/providers/oauth.ts";

const MFA = "/api/v1/auth/mfa";

const LOGIN = "/api/v1/auth/login";

const from = (address: string) => ({ headers: { "X-Forwarded-For": address } });

describe("wrong, lost and spare codes of a second factor", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  const logins = madeForEach(() => loginsOf(api, tenant));
  const { logIn, challenge, complete, factors } = callsOf(logins);
  const own = madeForEach(() => logins.own);

  describe("when somebody guesses", () => {
    const factor = madeForEach(() => withTotp(api, tenant));

    it("are refused after ten wrong ones, from whatever addresses, the right one too", async () => {
      const wrong = wrongCode(factor.secret);
      for (let i = 0; i < 10; i++)
        assertError(await complete(await challenge(), wrong), 401, "MFA_CODE_INVALID");
      const answer = await complete(await challenge(), await factor.code());
      assertError(answer, 429, "LOGIN_THROTTLED");
      assert.ok(Number(answer.headers.get("retry-after")) >= 1);
    });

    it("do not lock out the owner at a known address", async () => {
      const home = anAddress();
      must(await complete(await challenge(), await factor.code(), home), 200);
      const wrong = wrongCode(factor.secret);
      for (let i = 0; i < 11; i++) await complete(await challenge(), wrong);
      must(await complete(await challenge(), await factor.code(), home), 200);
    });

    it("one address has twenty tries over all accounts", async () => {
      const address = anAddress();
      const others = await Promise.all([aTenant(api), aTenant(api)]);
      await Promise.all(others.map((one) => withTotp(api, one)));
      const tries: number[] = [];
      for (const { email, password } of others) {
        for (let i = 0; i < 10; i++) {
          const { body } = await api.post(LOGIN, { email, password }, from(anAddress()));
          tries.push((await complete(body.error.challenge.token, "nonsense", address)).status);
        }
      }
      assert.deepEqual(new Set(tries), new Set([401]));
      assert.equal((await complete(await challenge(), await factor.code(), address)).status, 429);
    });
  });

  it("whose key was lost say so, and a recovery code lets their owner in", async () => {
    const { recoveryCodes, code } = await withTotp(api, tenant);
    const sealed = createSecretBox(["another-key-that-this-server-does-not-have"]).seal(
      "JBSWY3DP",
      "of nobody",
    );
    await api.sql`update totp_secrets set sealed = ${sealed} where owner_id = ${tenant.userId}::uuid`;
    assertError(await complete(await challenge(), await code()), 503, "MFA_SECRET_LOST");
    must(await complete(await challenge(), recoveryCodes[0]!), 200);
  });

  describe("recovery codes", () => {
    const factor = madeForEach(() => withTotp(api, tenant));

    it("each works once, of two logins at the same time for one of them, and the owner is told", async () => {
      const [code] = factor.recoveryCodes as [string];
      const tokens = [await challenge(), await challenge()];
      const answers = await Promise.all(tokens.map((token) => complete(token, code)));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 401]);
      assertError(await complete(await challenge(), code), 401, "MFA_CODE_INVALID");
      assert.equal((await factors()).recoveryCodesLeft, 9);
      await aMailTo(tenant.email, /A recovery code of your account was used/);
      const log = must(await api.get("/api/v1/audit-log?action=user.recovery_code_used", own), 200);
      assert.equal(log.data.length, 1);
    });

    it("are replaced with the password, and those of before no longer work", async () => {
      assertError(await api.post(`${MFA}/recovery-codes`, {}, own), 400);
      const asked = { currentPassword: tenant.password };
      const { recoveryCodes } = must(await api.post(`${MFA}/recovery-codes`, asked, own), 200);
      assertError(await complete(await challenge(), factor.recoveryCodes[0]!), 401, "MFA_CODE_INVALID");
      must(await complete(await challenge(), recoveryCodes[0]), 200);
      await aMailTo(tenant.email, /Your recovery codes were replaced/);
    });

    it("let a lost phone be replaced where a factor is required; the old one counts until then", async () => {
      must(await api.patch("/api/v1/tenant", { requireSecondFactor: true }, own), 200);
      const [first, second] = factor.recoveryCodes as [string, string];
      const { accessToken: other } = must(await logIn({ mfaCode: await factor.code() }), 200);
      const { accessToken } = must(await complete(await challenge(), first), 200);
      const [session, asked] = [{ token: accessToken }, { currentPassword: tenant.password }];
      const { secret } = must(await api.post(`${MFA}/totp/setup`, asked, session), 200);
      must(await logIn({ mfaCode: await factor.code() }), 200);
      const enable = (code: string) => api.post(`${MFA}/totp/enable`, { code }, session);
      assertError(await enable(await factor.code()), 403, "MFA_CODE_INVALID");
      const enabled = must(await enable(totpCode(secret)), 200);
      assert.deepEqual(enabled, {});
      assertError(await enable(totpCode(secret)), 409, "INVALID_STATE");
      assertError(await api.get(MFA, { token: other }), 401, "SESSION_REVOKED");
      assertError(await logIn({ mfaCode: await factor.code() }), 401, "MFA_CODE_INVALID");
      await forgetSteps(api, tenant.userId);
      must(await logIn({ mfaCode: totpCode(secret) }), 200);
      must(await complete(await challenge(), second), 200);
    });

    it("do not exist without a factor", async () => {
      const other = await aTenant(api);
      const answer = await api.post(
        `${MFA}/recovery-codes`,
        { currentPassword: other.password },
        { token: other.token },
      );
      assertError(answer, 409, "INVALID_STATE");
    });
  });

  describe("when they are switched off", () => {
    it("the password and a code are asked for, other sessions end, and the codes go", async () => {
      const factor = await withTotp(api, tenant);
      const { accessToken } = must(await logIn({ mfaCode: await factor.code() }), 200);
      await api.sql`update sessions set mfa_at = mfa_at - interval '10 minutes'
        where user_id = ${tenant.userId}::uuid`;
      const currentPassword = tenant.password;
      const off = (body: object) => api.post(`${MFA}/totp/disable`, body, own);
      assertError(await off({ currentPassword }), 403, "REAUTHENTICATION_REQUIRED");
      assertError(await off({ currentPassword, code: wrongCode(factor.secret) }), 403, "MFA_CODE_INVALID");
      must(await off({ currentPassword, code: await factor.code() }), 200);
      assertError(await api.get(MFA, { token: accessToken }), 401, "SESSION_REVOKED");
      assert.deepEqual(await factors(), {
        enabled: false,
        required: false,
        totp: null,
        passkeys: [],
        recoveryCodesLeft: 0,
      });
      must(await logIn(), 200);
      assertError(await off({ currentPassword }), 409, "INVALID_STATE");
      await aMailTo(tenant.email, /Codes of an app were switched off/);
    });
  });
});

describe("second factors of a session that has ended", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const own = () => ({ token: tenant.token });
  const proof = () => ({ currentPassword: tenant.password });
  const begin = () => api.post(`${MFA}/passkeys/options`, proof(), own());
  const add = (passkey: object, token = tenant.token) =>
    api.post(`${MFA}/passkeys`, { name: "A phone", credential: passkey }, { token });
  /** As another process does, of which this one does not hear at once. */
  const endSessions = () => api.sql`update sessions set revoked_at = now() where user_id = ${tenant.userId}`;

  it("are not added, changed or shown, whatever a process remembers of the session", async () => {
    const passkey = anAuthenticator(api).create(must(await begin(), 200));
    must(await api.post(`${MFA}/totp/setup`, proof(), own()), 200);
    await endSessions();
    must(await api.get("/api/v1/tenant", own()), 200);
    const refused = [
      await add(passkey),
      await begin(),
      await api.get(MFA, own()),
      await api.post(`${MFA}/totp/setup`, proof(), own()),
      await api.post(`${MFA}/totp/enable`, { code: "123456" }, own()),
      await api.post(`${MFA}/totp/disable`, proof(), own()),
      await api.post(`${MFA}/recovery-codes`, proof(), own()),
    ];
    for (const answer of refused) assertError(answer, 401, "SESSION_REVOKED");
  });

  it("are not made by a challenge that another session was given", async () => {
    const passkey = anAuthenticator(api).create(must(await begin(), 200));
    const { email, password } = tenant;
    const other = must(await api.post("/api/v1/auth/login", { email, password }), 200).accessToken;
    assertError(await add(passkey, other), 400, "PASSKEY_INVALID");
    assert.equal(must(await api.get(MFA, own()), 200).enabled, false);
  });
});

describe("a second factor and sign-in by a provider", () => {
  const { api, server, addPerson } = githubServer();
  let sub: string;
  let token: string;
  let factor: AppFactor;

  const come = async (parameters: Record<string, string>) =>
    told((await aBrowser(sub).go(startUrl(server, "github", parameters))).at);
  const complete = (challengeToken: string | undefined, code: string) =>
    api.post("/api/v1/auth/login/mfa", { challengeToken, code });

  beforeEach(async () => {
    sub = randomUUID();
    const email = `${sub}@example.com`;
    addPerson(sub, email);
    const { access_token } = await come({ flow: "signup" });
    token = access_token!;
    const { user } = must(await api.get("/api/v1/auth/me", { token }), 200);
    // Without a password, a sign-in of a moment ago is enough to set one up.
    factor = await withTotp(api, { userId: user.id, token, password: "" });
  });

  it("the way back brings no tokens, but a challenge that a code turns into a session", async () => {
    const answer = await come({ flow: "login" });
    assert.equal(answer["error"], "mfa_required");
    assert.equal(answer["challenge_methods"], "TOTP,RECOVERY_CODE");
    for (const name of ["access_token", "refresh_token", "code"]) assert.equal(answer[name], undefined);
    assertError(await complete(answer["challenge_token"], "000 000"), 401, "MFA_CODE_INVALID");
    const { accessToken } = must(await complete(answer["challenge_token"], await factor.code()), 200);
    const sessions = must(await api.get("/api/v1/auth/sessions", { token: accessToken }), 200);
    assert.equal(sessions.data.find((one: { current: boolean }) => one.current).method, "GITHUB");
  });

  it("so does the exchange of a code, which is used up by it", async () => {
    const { code } = await come({ flow: "login", response_mode: "code" });
    const answer = await api.post("/api/v1/auth/oauth/exchange", { code });
    assertError(answer, 401, "MFA_REQUIRED");
    assertError(await api.post("/api/v1/auth/oauth/exchange", { code }), 400, "OAUTH_CODE_INVALID");
    must(await complete(answer.body.error.challenge.token, await factor.code()), 200);
  });

  it("linking a provider needs none more: who links has just proved it", async () => {
    await api.sql`delete from identities where email = ${`${sub}@example.com`}`;
    const body = { redirect_uri: CONSOLE };
    const { authUrl } = must(await server.post("/api/v1/auth/oauth/github/link", body, { token }), 200);
    const answer = told((await aBrowser(sub).go(authUrl)).at);
    must(await api.get("/api/v1/auth/me", { token: answer["access_token"]! }), 200);
  });
});
