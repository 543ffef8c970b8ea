import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import { sql } from "kysely";
import { hashRefreshToken } from "../../src/domain/auth/refresh-tokens.ts";
import { User } from "../../src/domain/auth/user.ts";
import { Tenant as TenantEntity } from "../../src/domain/tenants/tenant.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app.ts";
import { assertError } from "../support/assert-error.ts";
import { aMember } from "../support/member.ts";

const PASSWORD = "Engine-No-1";
const anEmail = () => `${randomUUID()}@example.com`;
const anAddress = () => `10.${randomBytes(3).join(".")}`;

describe("authentication", () => {
  let api: TestApp;
  let tenant: Tenant;

  const register = (body: object) =>
    api.post(
      "/api/v1/auth/register",
      { email: anEmail(), name: "Ada Lovelace", password: PASSWORD, ...body },
      {
        headers: { "X-Forwarded-For": anAddress() },
      },
    );
  const login = (email: string, password: string) =>
    api.post("/api/v1/auth/login", { email, password }, { headers: { "X-Forwarded-For": anAddress() } });
  const storedUser = (email: string) => api.app.transact(({ em }) => em.findOne(User, { email }));
  const isKnownSession = (token: string) =>
    api.app.transact(async ({ db }) => {
      const found = await sql`select 1 from refresh_tokens where hash = ${hashRefreshToken(token)}`.execute(
        db,
      );
      return found.rows.length === 1;
    });

  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  describe("POST /auth/register", () => {
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
      assert.match(refreshToken, /^svc_rt_[0-9A-Za-z]{43}$/);
      assert(await isKnownSession(refreshToken));
      assert.equal((await api.get("/api/v1/projects", { token: accessToken })).status, 200);
      const stored = await api.app.transact(({ em }) => em.findOneOrFail(TenantEntity, { id: tenantId }));
      assert.equal(stored.name, "Analytical Engines");
      assert.equal(stored.plan, api.app.config.defaultPlan);
      assert.equal(stored.approvalStatus, "APPROVED", "embedded mode approves at once");
      assert.equal((await storedUser(email))?.id, id);
    });

    it("stores neither the password nor the refresh token in clear", async () => {
      const email = anEmail();
      await register({ email });
      assert.match((await storedUser(email))?.passwordHash ?? "", /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
    });

    it("knows an address in any case once only, also when two register at once", async () => {
      const email = anEmail();
      const answers = await Promise.all([register({ email }), register({ email: email.toUpperCase() })]);
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 409]);
      assertError(await register({ email }), 409, "EMAIL_ALREADY_EXISTS");
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
      assertError(await register({ password: `Aa1${"x".repeat(1_000_000)}` }), 400);
    });

    it("refuses hostile addresses and names", async () => {
      const emails = [
        "",
        "ada",
        "ada@",
        "@example.com",
        "a b@example.com",
        "ada@example",
        "ada@exa mple.com",
      ];
      emails.push(
        "ada@example.com\r\nBcc: x@example.com",
        `${"x".repeat(250)}@example.com`,
        "<ada@example.com>",
      );
      for (const email of emails) assertError(await register({ email }), 400);
      for (const name of ["", "A", " A ", "😀", "x".repeat(256), "Ada\nLovelace", "Ada\u0000"]) {
        assertError(await register({ name }), 400);
      }
    });

    it("never makes a new tenant of someone who asked to join one", async () => {
      for (const wish of [
        { tenantId: tenant.tenantId },
        { tenantId: randomUUID() },
        { invitationToken: "x" },
      ]) {
        const email = anEmail();
        const answer = await register({ email, ...wish });
        assertError(answer, 403, "INVITATION_REQUIRED");
        assert.match(answer.body.error.message, /invitation/);
        assert.equal(await storedUser(email), null);
      }
    });

    it("answers a bot as anyone else, stores nothing and gives it a useless token", async () => {
      const email = anEmail();
      const real = await register({});
      const decoy = await register({ email, website: "https://spam.example" });
      assert.equal(decoy.status, 201);
      assert.deepEqual(Object.keys(decoy.body), Object.keys(real.body));
      assert.deepEqual(Object.keys(decoy.body.user), Object.keys(real.body.user));
      assert.equal(decoy.body.accessToken.length, real.body.accessToken.length);
      assert.equal(decoy.body.refreshToken.length, real.body.refreshToken.length);
      assert.equal(await storedUser(email), null);
      assert(!(await isKnownSession(decoy.body.refreshToken)));
      assertError(await api.get("/api/v1/projects", { token: decoy.body.accessToken }), 401, "TOKEN_INVALID");
    });

    it("takes no role, approval or verification from the body", async () => {
      const answer = await register({
        role: "VIEWER",
        emailVerified: true,
        approvalStatus: "REJECTED",
        plan: "FREE",
      });
      assert.equal(answer.body.user.role, "OWNER");
      assert.equal(answer.body.user.emailVerified, false);
    });
  });

  describe("POST /auth/login", () => {
    it("gives a token for 7 days and exactly the documented user", async () => {
      const answer = await login(` ${tenant.email.toUpperCase()}`, tenant.password);
      assert.equal(answer.status, 200);
      const { accessToken, refreshToken, ...rest } = answer.body;
      const user = { id: tenant.userId, email: tenant.email, role: "OWNER" };
      assert.deepEqual(rest, { tokenType: "Bearer", expiresIn: 604_800, user });
      assert(await isKnownSession(refreshToken));
      assert.equal((await api.get("/api/v1/projects", { token: accessToken })).status, 200);
    });

    it("tells an unknown address and a wrong password apart neither by answer nor by work", async () => {
      const wrong = await login(tenant.email, "Wrong-horse-7");
      const unknown = await login(anEmail(), "Wrong-horse-7");
      for (const answer of [wrong, unknown]) {
        assertError(answer, 401, "INVALID_CREDENTIALS");
        answer.body.error.requestId = answer.body.error.timestamp = "";
      }
      assert.deepEqual(wrong.body, unknown.body);
      const passwords = { ...api.app.passwords };
      let verified = 0;
      const counting = {
        ...passwords,
        verify: (hash: string, text: string) => (verified++, passwords.verify(hash, text)),
      };
      const { login: loginWith } = await import("../../src/domain/auth/login.ts");
      await assert.rejects(
        loginWith({ ...api.app, passwords: counting }, { email: anEmail(), password: PASSWORD }),
      );
      assert.equal(verified, 1);
    });
  });

  describe("an access token", () => {
    it("is refused when it is missing, malformed, of another kind or in the wrong place", async () => {
      const ws = await api.post(
        "/api/v1/auth/ws-token",
        { projectId: tenant.projectId },
        { token: tenant.token },
      );
      assertError(await api.get("/api/v1/projects"), 401, "CREDENTIALS_MISSING");
      assertError(await api.get("/api/v1/projects", { token: "x.y.z" }), 401, "TOKEN_INVALID");
      assertError(await api.get("/api/v1/projects", { token: ws.body.token }), 401, "TOKEN_INVALID");
      assertError(await api.get("/api/v1/projects", { token: tenant.key }), 401, "TOKEN_INVALID");
    });

    it("has the role that the database says, not the one it was signed with", async () => {
      const { userId, token: own } = await aMember(api, tenant.tenantId, "VIEWER");
      const { sid } = decodeJwt<{ sid: string }>(own);
      const { token } = await api.app.tokens.signAccess({
        sub: userId,
        tid: tenant.tenantId,
        sid,
        role: "OWNER",
      });
      assertError(await api.post("/api/v1/projects", { name: "Mine" }, { token }), 403, "INSUFFICIENT_ROLE");
    });

    it("of a user who is gone or of another tenant is refused", async () => {
      const { sid } = decodeJwt<{ sid: string }>(tenant.token);
      const claims = { sub: tenant.userId, tid: tenant.tenantId, sid, role: "OWNER" } as const;
      for (const wrong of [{ sub: randomUUID() }, { tid: randomUUID() }, { sid: randomUUID() }]) {
        const { token } = await api.app.tokens.signAccess({ ...claims, ...wrong });
        assertError(await api.get("/api/v1/projects", { token }), 401, "SESSION_REVOKED");
      }
    });
  });
});
