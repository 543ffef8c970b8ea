import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import { sql } from "kysely";
import { hashRandomSecret } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { limitKeyOf } from "../../src/domain/kernel/networks.ts";
import { Tenant } from "../../src/domain/accounts/tenants/tenant.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";

const PASSWORD = "Engine-No-1-Difference";
const anEmail = () => `${randomUUID()}@example.com`;

describe("POST /auth/register", () => {
  const register = (body: object, address = anAddress()): Promise<Answer> =>
    api.post(
      "/api/v1/auth/register",
      { email: anEmail(), name: "Ada Lovelace", password: PASSWORD, ...body },
      { headers: { "X-Forwarded-For": address } },
    );
  const storedUser = (email: string) => api.app.transact(({ em }) => em.findOne(User, { email }));
  const isKnownToken = (token: string) =>
    api.app.transact(async ({ db }) => {
      const hash = hashRandomSecret(token);
      return (await sql`select 1 from refresh_tokens where hash = ${hash}`.execute(db)).rows.length === 1;
    });

  const api = madeOnce(startApp);

  it("creates a tenant and its OWNER, whose token works for 24 hours", async () => {
    const email = anEmail();
    const answer = await register({ email: `  ${email.toUpperCase()} `, tenantName: "Analytical Engines" });
    assert.equal(answer.status, 201);
    const { accessToken, refreshToken, user, ...rest } = answer.body;
    assert.deepEqual(rest, { tokenType: "Bearer", expiresIn: 86_400 });
    const { id, tenantId, ...shown } = user;
    assert.deepEqual(shown, { email, name: "Ada Lovelace", role: "OWNER", emailVerified: false });
    const { exp, iat } = decodeJwt(accessToken);
    assert.equal(Number(exp) - Number(iat), 86_400);
    assert.ok(await isKnownToken(refreshToken));
    assert.equal((await api.get("/api/v1/projects", { token: accessToken })).status, 200);
    const stored = await api.app.transact(({ em }) => em.findOneOrFail(Tenant, { id: tenantId }));
    assert.equal(stored.name, "Analytical Engines");
    assert.equal(stored.plan, api.app.config.defaultPlan);
    assert.equal(stored.approvalStatus, "APPROVED", "embedded mode approves at once");
    assert.equal((await storedUser(email))?.id, id);
  });

  it("names the tenant after the user when it has no name", async () => {
    const { tenantId } = (await register({})).body.user;
    const stored = await api.app.transact(({ em }) => em.findOneOrFail(Tenant, { id: tenantId }));
    assert.equal(stored.name, "Ada Lovelace");
  });

  it("knows an address in any case once only, also when two register at once", async () => {
    const email = anEmail();
    const answers = await Promise.all([register({ email }), register({ email: email.toUpperCase() })]);
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 409]);
    const tenants = await api.app.transact(({ em }) => em.count(Tenant, {}));
    assertError(await register({ email }), 409, "EMAIL_ALREADY_EXISTS");
    assert.equal(
      await api.app.transact(({ em }) => em.count(Tenant, {})),
      tenants,
      "no tenant is left behind",
    );
  });

  it("names every broken rule of the password", async () => {
    const answer = await register({ password: "abc" });
    assertError(answer, 400, "PASSWORD_TOO_WEAK");
    assert.equal(answer.body.error.code, "VALIDATION_ERROR");
    assert.deepEqual(answer.body.error.details, [
      { field: "password", message: "must have at least 8 characters" },
      { field: "password", message: "must contain an uppercase letter" },
      { field: "password", message: "must contain a number" },
    ]);
  });

  it("refuses disposable addresses, their sub-domains, and in any case", async () => {
    for (const domain of ["mailinator.com", "inbox.mailinator.com", "MAILINATOR.com", "Box.MailinatoR.Com"]) {
      const email = `${randomUUID()}@${domain}`;
      assertError(await register({ email }), 400, "EMAIL_DISPOSABLE");
      assert.equal(await storedUser(email.toLowerCase()), null);
    }
    assert.equal((await register({ email: `${randomUUID()}@xmailinator-corp.com` })).status, 201);
  });

  it("takes no role, approval, verification or plan from the body", async () => {
    const fields = { role: "VIEWER", emailVerified: true, status: "SUSPENDED", approvalStatus: "REJECTED" };
    for (const [name, value] of Object.entries({ ...fields, plan: "FREE", tenant: { plan: "FREE" } }))
      assertError(await register({ [name]: value }), 400);
    const { user, accessToken } = (await register({})).body;
    assert.deepEqual([user.role, user.emailVerified], ["OWNER", false]);
    assert.equal((await api.get("/api/v1/projects", { token: accessToken })).status, 200);
    const stored = await api.app.transact(({ em }) => em.findOneOrFail(Tenant, { id: user.tenantId }));
    assert.deepEqual([stored.approvalStatus, stored.plan], ["APPROVED", api.app.config.defaultPlan]);
  });

  describe("honeypot", () => {
    it("answers a bot as anyone else, stores nothing and gives it useless tokens", async () => {
      const email = anEmail();
      const real = await register({});
      const users = await api.app.transact(({ em }) => em.count(User, {}));
      const decoy = await register({ email, website: "https://spam.example" });
      assert.equal(decoy.status, 201);
      assert.deepEqual(Object.keys(decoy.body), Object.keys(real.body));
      assert.deepEqual(Object.keys(decoy.body.user), Object.keys(real.body.user));
      assert.equal(decoy.body.accessToken.length, real.body.accessToken.length);
      assert.equal(decoy.body.refreshToken.length, real.body.refreshToken.length);
      assert.equal(await storedUser(email), null);
      assert.equal(await api.app.transact(({ em }) => em.count(User, {})), users);
      assert.ok(!(await isKnownToken(decoy.body.refreshToken)));
      assertError(await api.get("/api/v1/projects", { token: decoy.body.accessToken }), 401, "TOKEN_INVALID");
      const { refreshToken } = decoy.body;
      assertError(await api.post("/api/v1/auth/refresh", { refreshToken }), 401, "REFRESH_TOKEN_INVALID");
    });

    it("shuts an address out that falls into it ten times in an hour", async () => {
      const address = anAddress();
      for (let hit = 0; hit < 10; hit++) {
        await api.app.limiter.reset(LIMITS.registration, limitKeyOf(address));
        assert.equal((await register({ website: "x" }, address)).status, 201);
      }
      assertError(await register({}, address), 403, "IP_BLOCKED");
      assert.equal((await register({})).status, 201);
    });
  });
});
