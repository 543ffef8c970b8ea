import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { routes } from "../../src/http/routes.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { aMailTo, mailsTo, tokenIn } from "../support/mail/mailbox.ts";
import { aMember } from "../support/app/member.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const NEXT = "Brass-Lantern-58";
const anEmail = () => `${randomUUID()}@example.com`;

describe("a user's own account", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const me = async (token = tenant.token) => must(await api.get("/api/v1/auth/me", { token }), 200);
  const patch = (body: object, token = tenant.token) => api.patch("/api/v1/auth/me", body, { token });
  const login = (email: string, password: string) => api.post("/api/v1/auth/login", { email, password });
  const verify = (token: string) => api.post("/api/v1/auth/verify-email", { token });
  const audited = async (action: string, target: string): Promise<number> => {
    const rows = await api.sql`select 1 from audit_log where action = ${action} and target_id = ${target}`;
    return rows.length;
  };

  describe("GET /auth/me", () => {
    it("shows the user, the tenant and what they may do, and no secret", async () => {
      const { user, tenant: shown, permissions, ...rest } = await me();
      assert.deepEqual(rest, {});
      const { createdAt: _, updatedAt: __, emailVerified: ___, ...fields } = user;
      assert.deepEqual(fields, {
        id: tenant.userId,
        email: tenant.email,
        name: "Test Owner",
        mustVerifyEmail: false,
        mfaEnabled: false,
        tenantId: tenant.tenantId,
        role: "OWNER",
        status: "ACTIVE",
        profileCompleted: true,
        hasPassword: true,
        pendingEmail: null,
      });
      const plan = api.app.config.defaultPlan;
      assert.deepEqual(shown, { id: tenant.tenantId, name: "Test Studio", plan, approvalStatus: "APPROVED" });
      assert.ok(permissions.includes("createProject") && permissions.includes("listSessions"));
    });

    it("names as permissions operations that the role may call and no other", async () => {
      for (const role of ["ADMIN", "DEVELOPER", "VIEWER"] as const) {
        const { token } = await aMember(api, tenant.tenantId, role);
        const { permissions } = await me(token);
        const project = await api.post("/api/v1/projects", { name: "A game" }, { token });
        assert.equal(permissions.includes("createProject"), project.status === 201, role);
        const path = `/api/v1/projects/${tenant.projectId}/api-keys`;
        const key = await api.post(path, { name: "A key" }, { token });
        assert.equal(permissions.includes("createApiKey"), key.status === 201, role);
        assert.ok(!permissions.includes("login"), "what is open to everybody is no permission");
      }
    });

    it("names only what concerns their own account to members whom nobody has accepted", async () => {
      const { token } = await aMember(api, tenant.tenantId, "OWNER", "PENDING");
      const { user, permissions, tenant: shown } = await me(token);
      assert.equal(user.status, "PENDING");
      assert.equal(shown.plan, null, "a stranger learns nothing of what the tenant pays");
      for (const id of permissions) {
        const { path } = routes.find((one) => one.id === id)!;
        assert.match(path, /^\/auth\/|^\/team\/leave$/);
      }
      assert.ok(permissions.includes("changePassword"));
    });
  });

  describe("PATCH /auth/me", () => {
    it("changes the name", async () => {
      const { body } = await patch({ name: "Ada King" });
      assert.equal(body.user.name, "Ada King");
      assert.deepEqual(body, await me());
    });

    it("replaces the address once the new one is proved, and then tells the old one", async () => {
      const email = anEmail();
      const { status, body } = await patch({ email: email.toUpperCase(), currentPassword: tenant.password });
      assert.equal(status, 200);
      assert.deepEqual([body.user.email, body.user.pendingEmail], [tenant.email, email]);
      assert.equal((await login(tenant.email, tenant.password)).status, 200);
      const token = tokenIn(await aMailTo(email, /./));
      assert.equal((await verify(token)).status, 200);
      const { user } = await me();
      assert.deepEqual([user.email, user.pendingEmail, user.emailVerified], [email, null, true]);
      assert.equal((await login(email, tenant.password)).status, 200);
      assertError(await login(tenant.email, tenant.password), 401, "INVALID_CREDENTIALS");
      assert.match((await aMailTo(tenant.email, /address/i)).text ?? "", new RegExp(email));
      assert.equal((await verify(token)).status, 410, "the link is good once");
      assert.equal(await audited("user.email_change_requested", tenant.userId), 1);
    });

    it("ends the link of before when it is asked again", async () => {
      const [first, second] = [anEmail(), anEmail()];
      must(await patch({ email: first, currentPassword: tenant.password }), 200);
      const token = tokenIn(await aMailTo(first, /./));
      must(await patch({ email: second, currentPassword: tenant.password }), 200);
      assert.equal((await verify(token)).status, 410);
      assert.equal((await me()).user.email, tenant.email);
    });

    it("wants the current password for a new address", async () => {
      const email = anEmail();
      const missing = await patch({ email });
      assertError(missing, 400);
      assert.equal(missing.body.error.details[0].field, "currentPassword");
      assertError(await patch({ email, currentPassword: "Wrong-1234" }), 403, "INVALID_CREDENTIALS");
      const member = await aMember(api, tenant.tenantId, "VIEWER");
      assertError(await patch({ email, currentPassword: "x" }, member.token), 409, "INVALID_STATE");
      assert.equal((await me()).user.pendingEmail, null);
      assert.deepEqual(mailsTo(email), []);
      assert.equal((await patch({ email: tenant.email })).status, 200, "the same address is no new one");
    });

    it("refuses an address that another tenant's user has, and one of a throw-away mailbox", async () => {
      const other = await aTenant(api);
      const currentPassword = tenant.password;
      assertError(await patch({ email: other.email, currentPassword }), 409, "EMAIL_ALREADY_EXISTS");
      assertError(await patch({ email: "ada@mailinator.com", currentPassword }), 400, "EMAIL_DISPOSABLE");
    });

    it("mails one address once a minute at most", async () => {
      const body = { email: anEmail(), currentPassword: tenant.password };
      assert.equal((await patch(body)).status, 200);
      const again = await patch(body);
      assertError(again, 429, "EMAIL_RATE");
      assert.ok(Number(again.headers.get("retry-after")) >= 1);
    });

    it("mails an address that another tenant's user has just wished for too", async () => {
      const [email, other] = [anEmail(), await aTenant(api)];
      must(await patch({ email, currentPassword: tenant.password }), 200);
      must(await patch({ email, currentPassword: other.password }, other.token), 200);
    });

    it("asks about or mails five addresses an hour for one user, wherever they ask from", async () => {
      const { email: taken } = await aTenant(api);
      const currentPassword = tenant.password;
      for (const email of [taken, anEmail(), anEmail(), taken, anEmail()]) {
        assert.notEqual((await patch({ email, currentPassword })).status, 429);
      }
      const unasked = anEmail();
      for (const email of [taken, unasked]) {
        const answer = await patch({ email, currentPassword });
        assertError(answer, 429, "EMAIL_RATE");
        assert.ok(Number(answer.headers.get("retry-after")) > 60);
      }
      assert.equal(mailsTo(unasked).length, 0);
      assert.equal((await patch({ name: "Ada Lovelace" })).status, 200);
    });

    it("keeps the old address when somebody else takes the new one meanwhile", async () => {
      const email = anEmail();
      must(await patch({ email, currentPassword: tenant.password }), 200);
      const token = tokenIn(await aMailTo(email, /./));
      const body = { email, password: NEXT, name: "Somebody Else" };
      must(await api.post("/api/v1/auth/register", body), 201);
      assertError(await verify(token), 409, "EMAIL_ALREADY_EXISTS");
      assert.equal((await me()).user.email, tenant.email);
    });
  });

  describe("POST /auth/change-password", () => {
    const changeAs = (token: string, body: object, address = anAddress()) =>
      api.post("/api/v1/auth/change-password", body, { token, headers: { "X-Forwarded-For": address } });
    const change = (body: object, address?: string) => changeAs(tenant.token, body, address);
    const right = () => ({ currentPassword: tenant.password, newPassword: NEXT });

    it("replaces the password, keeps this session, ends the others and tells by mail", async () => {
      const other = must(await login(tenant.email, tenant.password), 200);
      assert.deepEqual((await change(right())).body, { accepted: true });
      assert.equal((await api.get("/api/v1/auth/me", { token: tenant.token })).status, 200);
      assertError(await api.get("/api/v1/auth/me", { token: other.accessToken }), 401, "SESSION_REVOKED");
      const { refreshToken } = other;
      assertError(await api.post("/api/v1/auth/refresh", { refreshToken }), 401, "REFRESH_TOKEN_REVOKED");
      assertError(await login(tenant.email, tenant.password), 401, "INVALID_CREDENTIALS");
      assert.equal((await login(tenant.email, NEXT)).status, 200);
      await aMailTo(tenant.email, /password/i);
      assert.equal(await audited("user.password_changed", tenant.userId), 1);
    });

    it("ends links of before that set a password or an address", async () => {
      const email = anEmail();
      must(await patch({ email, currentPassword: tenant.password }), 200);
      must(await api.post("/api/v1/auth/forgot-password", { email: tenant.email }), 200);
      const [address, reset] = [
        await aMailTo(email, /./),
        await aMailTo(tenant.email, /reset|new password/i),
      ];
      must(await change(right()), 200);
      assert.equal((await verify(tokenIn(address))).status, 410);
      const body = { token: tokenIn(reset), password: "Copper-Kettle-91" };
      assert.equal((await api.post("/api/v1/auth/reset-password", body)).status, 410);
    });

    it("refuses a wrong current password, and slows down who guesses it with a found session", async () => {
      const address = anAddress();
      const guess = () => change({ currentPassword: "Wrong-1234", newPassword: NEXT }, address);
      for (let i = 0; i < 5; i++) assertError(await guess(), 403, "INVALID_CREDENTIALS");
      let last = await guess();
      for (let i = 0; i < 3 && last.status === 403; i++) last = await guess();
      assertError(last, 429, "LOGIN_THROTTLED");
      assert.equal((await login(tenant.email, tenant.password)).status, 200);
    });

    it("names every rule that the new password breaks", async () => {
      const answer = await change({ ...right(), newPassword: "abc" });
      assertError(answer, 400, "PASSWORD_TOO_WEAK");
      const fields = answer.body.error.details.map(({ field }: { field: string }) => field);
      assert.deepEqual(fields, ["newPassword", "newPassword", "newPassword"]);
      for (const newPassword of [tenant.password, "Password1", "TestOwner1", "Aa1".repeat(50)]) {
        assertError(await change({ ...right(), newPassword }), 400, "PASSWORD_TOO_WEAK");
      }
      assertError(await change({ ...right(), newPassword: "Aa1".repeat(300_000) }), 400);
      for (const body of [{}, { currentPassword: "x" }, { currentPassword: 1, newPassword: NEXT }]) {
        assertError(await change(body), 400);
      }
    });

    it("sends who has no password to forgot-password", async () => {
      const { token } = await aMember(api, tenant.tenantId, "VIEWER");
      const answer = await changeAs(token, { currentPassword: "x", newPassword: NEXT });
      assertError(answer, 409, "INVALID_STATE");
      assert.match(answer.body.error.message, /forgot-password/);
    });

    it("of two at once succeeds for one", async () => {
      const passwords = [NEXT, "Copper-Kettle-91"];
      const answers = await Promise.all(passwords.map((newPassword) => change({ ...right(), newPassword })));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 403]);
      const winner = passwords[answers.findIndex(({ status }) => status === 200)]!;
      assert.equal((await login(tenant.email, winner)).status, 200);
    });
  });
});
