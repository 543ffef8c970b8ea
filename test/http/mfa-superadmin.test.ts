import assert from "node:assert/strict";
import { disableAdmin } from "../../src/domain/accounts/admin/admins.ts";
import { resetAdminMfa } from "../../src/domain/accounts/mfa/factors.ts";
import { anAdmin } from "../support/app/admin.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import {
  anAuthenticator,
  passkeyOptions,
  withAdminTotp,
  withTotp,
  wrongCode,
} from "../support/mfa/second-factor.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const AUTH = "/api/v1/superadmin/auth";
const MFA = `${AUTH}/mfa`;

describe("the second factor of super-admins", () => {
  const api = madeOnce(startApp);
  const admin = madeForEach(() => anAdmin(api));

  const logIn = (more: object = {}) =>
    api.post(`${AUTH}/login`, { email: admin.email, password: admin.password, ...more });
  /** Logs in for the first time, which is good for setting up a factor. */
  const enrol = async (): Promise<string> => {
    const { accessToken, mfaEnrolmentRequired } = must(await logIn(), 200);
    assert.equal(mfaEnrolmentRequired, true);
    return accessToken;
  };

  it("is required: without one a login is good for nothing but setting one up", async () => {
    const token = await enrol();
    for (const refused of [
      await api.get("/api/v1/superadmin/tenants", { token }),
      await api.post("/api/v1/superadmin/tokens", { name: "Site build", scopes: ["blog:sync"] }, { token }),
      await api.post(
        `${AUTH}/change-password`,
        { currentPassword: admin.password, newPassword: "Other-Root-88" },
        { token },
      ),
    ])
      assertError(refused, 403, "MFA_ENROLMENT_REQUIRED");
    must(await api.get("/api/v1/superadmin/me", { token }), 200);
    const factor = await withAdminTotp(api, { ...admin, token });
    assertError(await api.get(MFA, { token }), 401, "SESSION_REVOKED");
    must(await api.get("/api/v1/superadmin/tenants", { token: factor.token }), 200);
    assert.equal(must(await api.get(MFA, { token: factor.token }), 200).required, true);
    await aMailTo(admin.email, /Codes of an app were switched on/);
  });

  it("is asked for at each login, by challenge or in one call, and a code works once", async () => {
    const factor = await withAdminTotp(api, { ...admin, token: await enrol() });
    const answer = await logIn();
    assertError(answer, 401, "MFA_REQUIRED");
    const challengeToken = answer.body.error.challenge.token;
    const code = await factor.code();
    const { accessToken: token, mfaEnrolmentRequired } = must(
      await api.post(`${AUTH}/login/mfa`, { challengeToken, code }),
      200,
    );
    assert.equal(mfaEnrolmentRequired, false);
    must(await api.get("/api/v1/superadmin/tenants", { token }), 200);
    assertError(await api.post(`${AUTH}/login/mfa`, { challengeToken, code }), 401, "MFA_CODE_INVALID");
    assertError(await logIn({ mfaCode: code }), 401, "MFA_CODE_INVALID");
    assertError(await logIn({ mfaCode: wrongCode(factor.secret) }), 401, "MFA_CODE_INVALID");
    must(await logIn({ mfaCode: factor.recoveryCodes[0] }), 200);
    const actions = (await auditOf(api, admin.adminId)).map(({ action }) => action);
    assert.ok(actions.includes("platform_admin.totp_enabled"));
    assert.equal(actions.filter((action) => action === "platform_admin.login_failed").length, 3);
    assert.ok(actions.includes("platform_admin.recovery_code_used"));
  });

  it("is not a user's: challenges of the one are none of the other", async () => {
    const factor = await withAdminTotp(api, { ...admin, token: await enrol() });
    const tenant = await aTenant(api);
    await withTotp(api, tenant);
    const { body } = await api.post("/api/v1/auth/login", { email: tenant.email, password: tenant.password });
    const ofUser = body.error.challenge.token;
    const ofAdmin = (await logIn()).body.error.challenge.token;
    const code = await factor.code();
    assertError(
      await api.post(`${AUTH}/login/mfa`, { challengeToken: ofUser, code }),
      401,
      "MFA_CHALLENGE_INVALID",
    );
    assertError(
      await api.post("/api/v1/auth/login/mfa", { challengeToken: ofAdmin, code }),
      401,
      "MFA_CHALLENGE_INVALID",
    );
    assertError(await api.get(MFA, { token: tenant.token }), 401, "TOKEN_INVALID");
    assertError(await api.get("/api/v1/auth/mfa", { token: factor.token }), 401, "TOKEN_INVALID");
  });

  it("may be a passkey, with the password", async () => {
    const asked = { currentPassword: admin.password };
    const token = await enrol();
    const options = must(await api.post(`${MFA}/passkeys/options`, asked, { token }), 200);
    const authenticator = anAuthenticator(api);
    const body = { name: "A key", credential: authenticator.create(options) };
    const { login, passkey } = must(await api.post(`${MFA}/passkeys`, body, { token }), 201);
    const credential = authenticator.get(await passkeyOptions(api));
    assertError(await api.post("/api/v1/auth/passkeys/login", { credential }), 401, "PASSKEY_INVALID");
    const challengeToken = (await logIn()).body.error.challenge.token;
    const answer = { challengeToken, passkey: authenticator.get(await passkeyOptions(api)) };
    must(await api.post(`${AUTH}/login/mfa`, answer), 200);
    const path = `${MFA}/passkeys/${passkey.id}`;
    const own = { token: login.accessToken };
    must(await api.patch(path, { name: "My key" }, own), 200);
    assertError(await api.delete(path, { ...own, body: asked }), 403, "REAUTHENTICATION_REQUIRED");
    const proved = { ...asked, passkey: authenticator.get(await passkeyOptions(api)) };
    assertError(await api.delete(path, { ...own, body: proved }), 409, "INVALID_STATE");
  });

  it("is changed with the password and a code, which end every other login", async () => {
    const factor = await withAdminTotp(api, { ...admin, token: await enrol() });
    const own = { token: factor.token };
    const currentPassword = admin.password;
    assertError(
      await api.post(`${MFA}/recovery-codes`, { currentPassword }, own),
      403,
      "REAUTHENTICATION_REQUIRED",
    );
    const code = await factor.code();
    assertError(
      await api.post(`${MFA}/recovery-codes`, { currentPassword: "Wrong-Root-7", code }, own),
      403,
      "INVALID_CREDENTIALS",
    );
    const proof = { currentPassword, code };
    const { recoveryCodes } = must(await api.post(`${MFA}/recovery-codes`, proof, own), 200);
    const off = { currentPassword, code: recoveryCodes[0] };
    assertError(await api.post(`${MFA}/totp/disable`, off, own), 409, "INVALID_STATE");
  });

  it("is removed by the command for who has lost it; their logins end, and the next enrols", async () => {
    const factor = await withAdminTotp(api, { ...admin, token: await enrol() });
    await api.app.transact((work) => resetAdminMfa(work, admin.email));
    assertError(await api.get(MFA, { token: factor.token }), 401, "SESSION_REVOKED");
    await enrol();
    await assert.rejects(
      api.app.transact((work) => resetAdminMfa(work, admin.email)),
      /no second factor/,
    );
  });

  it("does not let in who is disabled between password and code", async () => {
    const factor = await withAdminTotp(api, { ...admin, token: await enrol() });
    const challengeToken = (await logIn()).body.error.challenge.token;
    await api.app.transact((work) => disableAdmin(work, admin.email));
    assertError(
      await api.post(`${AUTH}/login/mfa`, { challengeToken, code: await factor.code() }),
      401,
      "MFA_CHALLENGE_INVALID",
    );
  });
});
