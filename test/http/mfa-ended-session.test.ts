import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { anAuthenticator } from "../support/mfa/second-factor.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

const MFA = "/api/v1/auth/mfa";

describe("second factors of a session that has ended", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const own = () => ({ token: tenant.token });
  const proof = () => ({ currentPassword: tenant.password });
  const begin = () => api.post(`${MFA}/passkeys/options`, proof(), own());
  const add = (passkey: object, token = tenant.token) =>
    api.post(`${MFA}/passkeys`, { name: "A phone", credential: passkey }, { token });
  /** As another process does, of which this one does not hear at once. */
  const endSessions = () =>
    api.app.transact(({ db }) =>
      sql`update sessions set revoked_at = now() where user_id = ${tenant.userId}`.execute(db),
    );

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
