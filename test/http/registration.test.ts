import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import { sql } from "kysely";
import { register as registerIn } from "../../src/domain/accounts/auth/registration.ts";
import { hashRandomSecret } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { limitKeyOf, LIMITS } from "../../src/domain/accounts/rate-limits/limiter.ts";
import { Tenant } from "../../src/domain/accounts/tenants/tenant.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress } from "../support/http/client.ts";
import { hostileAddresses } from "../support/mail/hostile-addresses.ts";
import { HOSTILE_ADDRESSES } from "../support/mail/mail-addresses.ts";
import { aMailTo, mailsTo, tokenIn } from "../support/mail/mailbox.ts";
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

  it("stores neither the password nor the refresh token in clear", async () => {
    const email = anEmail();
    const { refreshToken } = (await register({ email })).body;
    assert.match((await storedUser(email))?.passwordHash ?? "", /^\$argon2id\$/);
    const rows = await api.app.transact(async ({ db }) => {
      const found = await sql<{ row: string }>`select to_jsonb(t)::text as row from refresh_tokens t`.execute(
        db,
      );
      return found.rows.map(({ row }) => row).join();
    });
    assert.ok(!rows.includes(refreshToken));
  });

  it("mails a link that proves the address", async () => {
    const email = anEmail();
    const { accessToken } = (await register({ email })).body;
    const token = tokenIn(await aMailTo(email, /./));
    assert.deepEqual((await api.post("/api/v1/auth/verify-email", { token })).body, { emailVerified: true });
    assert.equal((await storedUser(email))?.emailVerified, true);
    assert.equal((await api.get("/api/v1/projects", { token: accessToken })).status, 200);
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

  it("does not even hash a password that it does not take, be it of kilobytes", async () => {
    let hashed = 0;
    const hash = (text: string) => (hashed++, api.app.passwords.hash(text));
    const other = await anotherServer(api, {}, { passwords: { ...api.app.passwords, hash } });
    const body = { email: anEmail(), name: "Ada Lovelace" };
    for (const password of [`Aa1${"x".repeat(15_000)}`, "x".repeat(500), "weak"]) {
      const answer = await other.post("/api/v1/auth/register", { ...body, password });
      assert.equal(answer.status, 400);
    }
    assert.equal(hashed, 0);
  });

  it("takes one password in every spelling that Unicode has for it", async () => {
    const email = anEmail();
    const password = "Crème-Brûlée-42";
    assert.equal((await register({ email, password: password.normalize("NFD") })).status, 201);
    for (const form of ["NFC", "NFD"]) {
      const answer = await api.post("/api/v1/auth/login", { email, password: password.normalize(form) });
      assert.equal(answer.status, 200, form);
    }
  });

  it("refuses every hostile form of an address, and mails nobody", async () => {
    // Blanks around an address are cut.
    const trimmed = HOSTILE_ADDRESSES.filter((email) => email === email.trim());
    for (const email of [...trimmed, ...hostileAddresses]) {
      const answer = await register({ email });
      assertError(answer, 400);
      assert.equal(answer.body.error.details[0].field, "email", email);
    }
    for (const victim of ["victim@example.com", "victim@x.test"]) assert.deepEqual(mailsTo(victim), []);
  });

  it("takes the addresses that people have", async () => {
    for (const local of ["o'brien", "ada+games", "a.b-c_d", "x".repeat(64 - 9)]) {
      const email = `${randomUUID().slice(0, 8)}.${local}@mail.sub-domain.example.com`;
      assert.equal((await register({ email })).status, 201, email);
    }
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

  describe("limit", () => {
    it("is five attempts an hour for an address, of which every one counts", async () => {
      const address = anAddress();
      assertError(await register({ email: "none" }, address), 400);
      assertError(await register({ password: "weak" }, address), 400, "PASSWORD_TOO_WEAK");
      assert.equal((await register({ website: "x" }, address)).status, 201);
      for (let count = 0; count < 2; count++) assert.equal((await register({}, address)).status, 201);
      const refused = await register({}, address);
      assertError(refused, 429, "REGISTRATION_RATE");
      assert.equal(refused.headers.get("X-RateLimit-Limit"), "5");
      assert.equal(refused.headers.get("X-RateLimit-Remaining"), "0");
      const retryAfter = Number(refused.headers.get("Retry-After"));
      assert.ok(retryAfter >= 1 && retryAfter <= 3_600, String(retryAfter));
      assert.equal((await register({})).status, 201, "other addresses go on");
    });

    it("is not widened by addresses that the client writes into X-Forwarded-For", async () => {
      const address = anAddress();
      const statuses: number[] = [];
      for (let count = 0; count < 6; count++) {
        statuses.push((await register({}, `${anAddress()}, ${address}`)).status);
      }
      assert.deepEqual(statuses, [201, 201, 201, 201, 201, 429]);
    });
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
      const devices = [decoy, real].map(({ headers }) => headers.get("x-device-token") ?? "");
      for (const device of devices) assert.match(device, /^[\w-]{43}$/);
      assert.equal(await storedUser(email), null);
      assert.equal(await api.app.transact(({ em }) => em.count(User, {})), users);
      assert.ok(!(await isKnownToken(decoy.body.refreshToken)));
      assertError(await api.get("/api/v1/projects", { token: decoy.body.accessToken }), 401, "TOKEN_INVALID");
      const { refreshToken } = decoy.body;
      assertError(await api.post("/api/v1/auth/refresh", { refreshToken }), 401, "REFRESH_TOKEN_INVALID");
    });

    it("costs a bot one hash, as it costs anyone else", async () => {
      let hashed = 0;
      const passwords = {
        ...api.app.passwords,
        hash: (text: string) => (hashed++, api.app.passwords.hash(text)),
      };
      const { autoApproveTenants, defaultPlan, disposableEmail } = api.app.config;
      const settings = { autoApproveTenants, defaultPlan, disposableEmail };
      const parts = { ...api.app, ...settings, passwords };
      const body = { email: anEmail(), name: "Ada", password: PASSWORD };
      await registerIn(parts, { ...body, website: "x" }, { ip: anAddress(), deviceToken: "" });
      assert.equal(hashed, 1);
      await registerIn(parts, body, { ip: anAddress(), deviceToken: "" });
      assert.equal(hashed, 2);
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
