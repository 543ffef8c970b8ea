import assert from "node:assert/strict";
import { sql } from "kysely";
import { PRUNES, prune } from "../../src/domain/registries/pruning.ts";
import { createSecretBox } from "../../src/domain/kernel/secret-box.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { loginsOf } from "../support/mfa/logins.ts";
import { forgetSteps, withTotp } from "../support/mfa/second-factor.ts";
import { totpCode, wrongCode } from "../support/mfa/totp.ts";
import { callsOf, madeForEach, madeOnce } from "../support/made.ts";

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

    it("are refused all the same when all are sent at the same time", async () => {
      const tokens: string[] = [];
      for (let i = 0; i < 15; i++) tokens.push(await challenge());
      const wrong = wrongCode(factor.secret);
      const answers = await Promise.all(tokens.map((token) => complete(token, wrong)));
      assert.equal(answers.filter(({ status }) => status === 401).length, 10);
      assert.equal(answers.filter(({ status }) => status === 429).length, 5);
    });

    it("do not lock out the owner's known device", async () => {
      const first = await complete(await challenge(), await factor.code());
      const device = first.headers.get("x-device-token")!;
      const wrong = wrongCode(factor.secret);
      for (let i = 0; i < 11; i++) await complete(await challenge(), wrong);
      const headers = { "X-Forwarded-For": anAddress(), "X-Device-Token": device };
      const body = { challengeToken: await challenge(), code: await factor.code() };
      must(await api.post(`${LOGIN}/mfa`, body, { headers }), 200);
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
    await api.app.transact(({ db }) =>
      sql`update totp_secrets set sealed = ${sealed} where owner_id = ${tenant.userId}::uuid`.execute(db),
    );
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

    it("of an app that was not confirmed within an hour are forgotten with its secret", async () => {
      const code = await factor.code();
      must(await api.post(`${MFA}/totp/setup`, { currentPassword: tenant.password, code }, own), 200);
      const waiting = async (): Promise<number> => {
        const { rows } = await api.app.transact(({ db }) =>
          sql`select 1 from totp_secrets
            where owner_id = ${tenant.userId}::uuid and next_sealed is not null`.execute(db),
        );
        return rows.length;
      };
      const pruned = async (): Promise<void> => {
        for (const one of PRUNES.filter(({ table }) => table === "totp_secrets"))
          await api.app.transact((work) => prune(work, one, 1_000));
      };
      await pruned();
      assert.equal(await waiting(), 1);
      await api.app.transact(({ db }) =>
        sql`update totp_secrets set next_created_at = next_created_at - interval '1 hour'
          where owner_id = ${tenant.userId}::uuid`.execute(db),
      );
      await pruned();
      assert.equal(await waiting(), 0);
      must(await logIn({ mfaCode: await factor.code() }), 200);
      const first = await aTenant(api);
      const asked = { currentPassword: first.password };
      const { secret } = must(await api.post(`${MFA}/totp/setup`, asked, { token: first.token }), 200);
      await api.app.transact(({ db }) =>
        sql`update totp_secrets set created_at = created_at - interval '1 hour'
          where owner_id = ${first.userId}::uuid`.execute(db),
      );
      await pruned();
      const enable = { code: totpCode(secret) };
      assertError(await api.post(`${MFA}/totp/enable`, enable, { token: first.token }), 409, "INVALID_STATE");
    });

    it("are not used up by a change that is refused", async () => {
      must(await api.patch("/api/v1/tenant", { requireSecondFactor: true }, own), 200);
      await api.app.transact(({ db }) =>
        sql`update sessions set mfa_at = mfa_at - interval '10 minutes'
          where user_id = ${tenant.userId}::uuid`.execute(db),
      );
      const [code] = factor.recoveryCodes as [string];
      const asked = { currentPassword: tenant.password, code };
      assertError(await api.post(`${MFA}/totp/disable`, asked, own), 409, "INVALID_STATE");
      must(await complete(await challenge(), code), 200);
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
      await api.app.transact(({ db }) =>
        sql`update sessions set mfa_at = mfa_at - interval '10 minutes'
          where user_id = ${tenant.userId}::uuid`.execute(db),
      );
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
