import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { loginsOf, totpCode, withTotp, wrongCode } from "../support/mfa/second-factor.ts";
import { callsOf, madeForEach, madeOnce } from "../support/made.ts";

const MFA = "/api/v1/auth/mfa";
const step = (): number => Math.floor(Date.now() / 30_000);

/** Does it again if a step of 30 seconds began meanwhile, which moves the window of codes. */
const inOneStep = async <T>(run: () => Promise<T>): Promise<T> => {
  for (;;) {
    const began = step();
    const result = await run();
    if (step() === began) return result;
  }
};
const LOGIN = "/api/v1/auth/login";

/** What people type for a code and is none; of full-width digits there are six. */
const MISTYPED = ["12345", "12345a", "", "１２３４５６"];

describe("codes of an authenticator app", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  const logins = madeForEach(() => loginsOf(api, tenant));
  const { logIn, challenge, complete, factors } = callsOf(logins);
  const own = madeForEach(() => logins.own);

  describe("when they are set up", () => {
    it("count only after the first right code, and the secret is shown once", async () => {
      const asked = { currentPassword: tenant.password };
      const setup = must(await api.post(`${MFA}/totp/setup`, asked, own), 200);
      assert.match(setup.secret, /^[A-Z2-7]{32}$/);
      const url = new URL(setup.otpauthUrl);
      assert.equal(url.searchParams.get("secret"), setup.secret);
      assert.equal(url.searchParams.get("issuer"), "Laurel");
      assert.ok(decodeURIComponent(url.pathname).endsWith(`Laurel:${tenant.email}`));
      assert.deepEqual((await factors()).totp, null);
      must(await logIn(), 200);
      assertError(
        await api.post(`${MFA}/totp/enable`, { code: wrongCode(setup.secret) }, own),
        403,
        "MFA_CODE_INVALID",
      );
      must(await logIn(), 200);
      const code = totpCode(setup.secret);
      const { recoveryCodes } = must(await api.post(`${MFA}/totp/enable`, { code }, own), 200);
      assert.equal(new Set(recoveryCodes).size, 10);
      for (const one of recoveryCodes) assert.match(one, /^([a-km-np-z2-9]{4}-){3}[a-km-np-z2-9]{4}$/);
      const shown = await factors();
      assert.equal(shown.enabled, true);
      assert.equal(shown.recoveryCodesLeft, 10);
      for (const secret of [setup.secret, ...recoveryCodes])
        assert.ok(!JSON.stringify([shown, await api.get("/api/v1/auth/me", own)]).includes(secret));
      await challenge();
    });

    it("need the password, and refuse one that is wrong or missing", async () => {
      assertError(await api.post(`${MFA}/totp/setup`, {}, own), 400);
      const wrong = { currentPassword: "Wrong-horse-7" };
      assertError(await api.post(`${MFA}/totp/setup`, wrong, own), 403, "INVALID_CREDENTIALS");
      assertError(await api.post(`${MFA}/totp/setup`, wrong), 401, "CREDENTIALS_MISSING");
      assertError(await api.post(`${MFA}/totp/enable`, { code: "123456" }, own), 409, "INVALID_STATE");
    });

    it("a second secret replaces one that was not confirmed", async () => {
      const setUp = async () =>
        must(await api.post(`${MFA}/totp/setup`, { currentPassword: tenant.password }, own), 200).secret;
      const [first, second] = [await setUp(), await setUp()];
      assertError(
        await api.post(`${MFA}/totp/enable`, { code: totpCode(first) }, own),
        403,
        "MFA_CODE_INVALID",
      );
      must(await api.post(`${MFA}/totp/enable`, { code: totpCode(second) }, own), 200);
    });

    it("are refused when they are mistyped, like wrong ones", async () => {
      must(await api.post(`${MFA}/totp/setup`, { currentPassword: tenant.password }, own), 200);
      for (const code of MISTYPED)
        assertError(await api.post(`${MFA}/totp/enable`, { code }, own), 403, "MFA_CODE_INVALID");
    });

    it("a secret waits for an hour", async () => {
      const asked = { currentPassword: tenant.password };
      const { secret } = must(await api.post(`${MFA}/totp/setup`, asked, own), 200);
      await api.sql`update totp_secrets set created_at = created_at - interval '1 hour'
        where owner_id = ${tenant.userId}::uuid`;
      const answer = await api.post(`${MFA}/totp/enable`, { code: totpCode(secret) }, own);
      assertError(answer, 409, "INVALID_STATE");
    });

    it("end sessions that began without them, tell the owner by mail, and are in the audit log", async () => {
      const other = must(await logIn(), 200);
      await withTotp(api, tenant);
      assertError(await api.get(MFA, { token: other.accessToken }), 401, "SESSION_REVOKED");
      assertError(
        await api.post("/api/v1/auth/refresh", { refreshToken: other.refreshToken }),
        401,
        "REFRESH_TOKEN_REVOKED",
      );
      must(await api.get(MFA, own), 200);
      await aMailTo(tenant.email, /Codes of an app were switched on/);
      const log = must(await api.get("/api/v1/audit-log?action=user.totp_enabled", own), 200);
      assert.equal(log.data.length, 1);
      assert.deepEqual(log.data[0].target, { type: "user", id: tenant.userId });
    });
  });

  describe("when somebody logs in", () => {
    const factor = madeForEach(() => withTotp(api, tenant));

    it("are asked for after the right password alone, and nothing of a session is given before", async () => {
      assertError(await logIn({ password: "Wrong-horse-7" }), 401, "INVALID_CREDENTIALS");
      const { body } = await logIn();
      assert.equal(body.error.reason, "MFA_REQUIRED");
      assert.deepEqual(body.error.challenge.methods, ["TOTP", "RECOVERY_CODE"]);
      assert.equal(body.accessToken, undefined);
      assertError(
        await api.get("/api/v1/auth/me", { token: body.error.challenge.token }),
        401,
        "TOKEN_INVALID",
      );
      const answer = await complete(body.error.challenge.token, await factor.code());
      assert.equal(must(answer, 200).user.id, tenant.userId);
    });

    it("may come with the password, as people type them", async () => {
      const code = await factor.code();
      must(await logIn({ mfaCode: `${code.slice(0, 3)} ${code.slice(3)}` }), 200);
      must(await logIn({ mfaCode: factor.recoveryCodes[0]!.toUpperCase() }), 200);
      assertError(await logIn({ mfaCode: wrongCode(factor.secret) }), 401, "MFA_CODE_INVALID");
    });

    it("are refused when they are mistyped, like wrong ones", async () => {
      const token = await challenge();
      for (const code of MISTYPED) {
        assertError(await logIn({ mfaCode: code }), 401, "MFA_CODE_INVALID");
        assertError(await complete(token, code), 401, "MFA_CODE_INVALID");
      }
    });

    it("work once: a code that was used is refused, and so is any of an earlier step", async () => {
      const [before, now] = [totpCode(factor.secret, -1), await factor.code()];
      const token = await challenge();
      must(await complete(token, now), 200);
      for (const code of [now, before])
        assertError(await complete(await challenge(), code), 401, "MFA_CODE_INVALID");
    });

    it("count one step early or late, and no further", async () => {
      for (const [steps, status] of [
        [-2, 401],
        [-1, 200],
        [1, 200],
        [2, 401],
      ] as const) {
        const answer = await inOneStep(async () => {
          await factor.code();
          return complete(await challenge(), totpCode(factor.secret, steps));
        });
        assert.equal(answer.status, status, `${steps} steps`);
      }
    });

    it("a challenge is good for one session, and for no other account", async () => {
      const token = await challenge();
      must(await complete(token, await factor.code()), 200);
      assertError(await complete(token, factor.recoveryCodes[0]!), 401, "MFA_CHALLENGE_INVALID");
      assertError(await complete(tenant.token, await factor.code()), 401, "MFA_CHALLENGE_INVALID");
      const other = await aTenant(api);
      const theirs = await withTotp(api, other);
      assertError(await complete(await challenge(), await theirs.code()), 401, "MFA_CODE_INVALID");
    });

    it("a challenge ends after five minutes, and with the password it began with", async () => {
      const late = await challenge();
      const now = api.app.clock;
      const { tokens } = api.app;
      assert.equal((await tokens.verifyMfa(late)).exp - Math.floor(now().getTime() / 1_000) <= 300, true);
      const body = { currentPassword: tenant.password, newPassword: "Copper-Kettle-91" };
      must(await api.post("/api/v1/auth/change-password", body, own), 200);
      assertError(await complete(late, await factor.code()), 401, "MFA_CHALLENGE_INVALID");
    });

    it("a login needs one proof, and only one", async () => {
      const challengeToken = await challenge();
      assertError(await api.post(`${LOGIN}/mfa`, { challengeToken }), 400);
      assertError(await api.post(`${LOGIN}/mfa`, { challengeToken, code: "1".repeat(65) }), 400);
    });
  });
});
