import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant, startApp } from "../support/app/app.ts";
import { aMember, type Member } from "../support/app/member.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Answer, must } from "../support/http/client.ts";
import { withTotp } from "../support/mfa/second-factor.ts";
import { aSigningKey, samlConfig } from "../support/sso/saml-config.ts";
import { putSso } from "../support/sso/server.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

describe("an OWNER without a password", () => {
  let owner: Member;
  let other: Member;
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  beforeEach(async () => {
    // As single sign-on makes them.
    owner = await aMember(api, tenant.tenantId, "OWNER");
    other = await aMember(api, tenant.tenantId, "ADMIN");
    await withTotp(api, { ...other, password: "" });
  });

  const age = (userId: string) =>
    api.app.transact(({ db }) =>
      sql`
        update sessions set mfa_at = mfa_at - interval '10 minutes',
          created_at = created_at - interval '10 minutes'
        where user_id = ${userId}::uuid`.execute(db),
    );
  const calls: Record<string, (token: string, body?: object) => Promise<Answer>> = {
    "resets a member's second factor": (token, body = {}) =>
      api.post(`/api/v1/team/members/${other.userId}/reset-mfa`, body, { token }),
    "deletes the tenant": (token, body = {}) => api.delete("/api/v1/tenant", { token, body }),
    "makes another member OWNER": (token, body = {}) =>
      api.post("/api/v1/tenant/transfer-ownership", { userId: other.userId, ...body }, { token }),
  };

  for (const [what, call] of Object.entries(calls)) {
    it(`${what} after a sign-in of the last 10 minutes`, async () => {
      must(await call(owner.token), 200);
    });

    it(`${what} by no older session`, async () => {
      await age(owner.userId);
      assertError(await call(owner.token), 403, "REAUTHENTICATION_REQUIRED");
    });

    it(`${what} by an older one that has proved a second factor in the last 10 minutes`, async () => {
      const factor = await withTotp(api, { ...owner, password: "" });
      await age(owner.userId);
      assertError(await call(owner.token), 403, "REAUTHENTICATION_REQUIRED");
      const { token } = owner;
      must(await api.post("/api/v1/auth/mfa/verify", { code: await factor.code() }, { token }), 200);
      must(await call(token), 200);
    });
  }

  it("is also one whose password counts no more, since single sign-on is enforced", async () => {
    const call = calls["resets a member's second factor"]!;
    assertError(await call(tenant.token), 400);
    must(await putSso(api, tenant, samlConfig(aSigningKey().cert)), 200);
    await api.app.transact(({ db }) =>
      sql`
        update sso_configurations set enforce_sso = true, break_glass_user_id = ${owner.userId}::uuid
        where tenant_id = ${tenant.tenantId}::uuid`.execute(db),
    );
    const wrong = { currentPassword: "Wrong-horse-7" };
    assertError(await call(tenant.token, wrong), 403, "INVALID_CREDENTIALS");
    must(await call(tenant.token), 200);
    await age(tenant.userId);
    assert.equal((await call(tenant.token)).status, 403);
  });
});
