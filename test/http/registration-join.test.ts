import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { User } from "../../src/domain/accounts/auth/user.ts";
import type { PlanLimits, Role } from "../../src/domain/kernel/caller.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { hashRandomSecret, newRandomSecret } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { Invitation, type InvitationStatus } from "../../src/domain/accounts/team/accept.ts";
import { Tenant as TenantEntity } from "../../src/domain/accounts/tenants/tenant.ts";
import { type Answer, aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { aMailTo, mailsTo } from "../support/mail/mailbox.ts";
import { aMember } from "../support/app/member.ts";

const PASSWORD = "Engine-No-1-Difference";
const anEmail = () => `${randomUUID()}@example.com`;
const DAY_MS = 86_400_000;

describe("registration into a tenant that exists", () => {
  let api: TestApp;
  let tenant: Tenant;

  const register = (body: object): Promise<Answer> =>
    api.post("/api/v1/auth/register", {
      email: anEmail(),
      name: "Grace Hopper",
      password: PASSWORD,
      ...body,
    });
  const stored = (email: string) => api.app.transact(({ em }) => em.findOne(User, { email }));
  const setTenant = (change: { planOverrides?: Partial<PlanLimits>; deleteAfter?: Date; deletedAt?: Date }) =>
    api.app.transact(async ({ em }) => {
      Object.assign(await em.findOneOrFail(TenantEntity, { id: tenant.tenantId }), change);
    });

  type Wish = { role?: Role; status?: InvitationStatus; expiresAt?: Date };
  const invite = async (email: string, wish: Wish = {}): Promise<string> => {
    const token = newRandomSecret();
    await api.app.transact(async ({ em, now }) => {
      em.create(Invitation, {
        id: newId(),
        tenantId: tenant.tenantId,
        email,
        role: "DESIGNER",
        tokenHash: hashRandomSecret(token),
        status: "PENDING",
        invitedBy: tenant.userId,
        expiresAt: new Date(now.getTime() + DAY_MS),
        sentAt: now,
        createdAt: now,
        updatedAt: now,
        ...wish,
      });
    });
    return token;
  };

  before(async () => {
    api = await startApp();
  });
  beforeEach(async () => {
    tenant = await aTenant(api);
  });

  describe("by tenantId alone", () => {
    it("makes a VIEWER who waits, and may see to their own account only", async () => {
      const email = anEmail();
      const wish = { tenantId: tenant.tenantId, tenantName: "Mine" };
      for (const more of [{ role: "OWNER" }, { status: "ACTIVE" }])
        assertError(await register({ email, ...wish, ...more }), 400);
      const answer = await register({ email, ...wish });
      assert.equal(answer.status, 201);
      const { id: _, ...user } = answer.body.user;
      assert.deepEqual(user, {
        email,
        name: "Grace Hopper",
        tenantId: tenant.tenantId,
        role: "VIEWER",
        emailVerified: false,
      });
      assert.equal((await stored(email))?.status, "PENDING");
      const token = answer.body.accessToken;
      assertError(await api.get("/api/v1/projects", { token }), 403, "MEMBERSHIP_PENDING");
      const complete = await api.post("/api/v1/auth/complete-profile", { name: "Grace" }, { token });
      assertError(complete, 409, "INVALID_STATE");
    });

    it("tells those who can accept, and nobody else", async () => {
      const admin = await aMember(api, tenant.tenantId, "ADMIN");
      const viewer = await aMember(api, tenant.tenantId, "VIEWER");
      const suspended = await aMember(api, tenant.tenantId, "ADMIN", "SUSPENDED");
      const email = anEmail();
      assert.equal((await register({ email, tenantId: tenant.tenantId })).status, 201);
      for (const address of [tenant.email, admin.email]) {
        const mail = await aMailTo(address, /Grace Hopper|wait|join/i);
        assert.ok(mail.text!.includes(email), mail.text!);
      }
      for (const address of [viewer.email, suspended.email]) assert.deepEqual(mailsTo(address), []);
    });

    it("answers 404 for a tenant that is unknown, deleted or about to be", async () => {
      assertError(await register({ tenantId: randomUUID() }), 404);
      await setTenant({ deleteAfter: new Date(Date.now() + DAY_MS) });
      assertError(await register({ tenantId: tenant.tenantId }), 404);
      await setTenant({ deletedAt: new Date() });
      const email = anEmail();
      assertError(await register({ email, tenantId: tenant.tenantId }), 404);
      assert.equal(await stored(email), null);
    });

    it("ends at the members of the plan, who waits or is invited included, also in a race", async () => {
      await setTenant({ planOverrides: { members: 4 } });
      await invite(anEmail());
      await invite(anEmail(), { expiresAt: new Date(Date.now() - 1) });
      await invite(anEmail(), { status: "REVOKED" });
      const wish = { tenantId: tenant.tenantId };
      const answers = await Promise.all([1, 2, 3, 4].map(() => register(wish)));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 201, 402, 402]);
      const full = await register(wish);
      assertError(full, 402, "PLAN_LIMIT_EXCEEDED");
      assert.equal(full.body.error.code, "PAYMENT_REQUIRED");
    });
  });

  describe("with an invitation", () => {
    it("gives its role at once and counts the address as proved", async () => {
      const email = anEmail();
      const invitationToken = await invite(email, { role: "DEVELOPER" });
      const { user, accessToken } = (await register({ email: email.toUpperCase(), invitationToken })).body;
      const { id: _, ...shown } = user;
      const { tenantId } = tenant;
      assert.deepEqual(shown, {
        email,
        name: "Grace Hopper",
        tenantId,
        role: "DEVELOPER",
        emailVerified: true,
      });
      assert.equal((await stored(email))?.status, "ACTIVE");
      assert.equal((await api.get("/api/v1/projects", { token: accessToken })).status, 200);
      assertError(await register({ email: anEmail(), invitationToken }), 409, "INVALID_STATE");
      assert.deepEqual(mailsTo(email), [], "there is nothing left to prove");
    });

    it("decides the tenant, whatever tenantId says", async () => {
      const other = await aTenant(api);
      const email = anEmail();
      const invitationToken = await invite(email);
      const answer = await register({ email, invitationToken, tenantId: other.tenantId, tenantName: "Mine" });
      assert.equal(answer.body.user.tenantId, tenant.tenantId);
    });

    it("of another address, over, taken back or unknown makes no account at all", async () => {
      const email = anEmail();
      const over = { expiresAt: new Date(Date.now() - 1) };
      const cases = [
        [await invite(anEmail()), 403, "INVITATION_EMAIL_MISMATCH"],
        [await invite(email, over), 410, "INVITATION_EXPIRED"],
        [await invite(email, { status: "REVOKED" }), 410, "INVITATION_REVOKED"],
        [newRandomSecret(), 404, undefined],
      ] as const;
      for (const [invitationToken, status, reason] of cases) {
        assertError(await register({ email, invitationToken }), status, reason);
      }
      assert.equal(await stored(email), null);
    });

    it("stays good when the address has an account already", async () => {
      const invitationToken = await invite(tenant.email);
      const answer = await register({ email: tenant.email, invitationToken });
      assertError(answer, 409, "EMAIL_ALREADY_EXISTS");
      const where = { tokenHash: hashRandomSecret(invitationToken) };
      const kept = await api.app.transact(({ em }) => em.findOneOrFail(Invitation, where));
      assert.equal(kept.status, "PENDING");
    });

    it("makes one account of several that use it at once", async () => {
      const email = anEmail();
      const invitationToken = await invite(email);
      const answers = await Promise.all([1, 2, 3].map(() => register({ email, invitationToken })));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 409, 409]);
    });
  });

  describe("by a bot", () => {
    it("looks as it would, and adds nobody", async () => {
      const answer = await register({ tenantId: tenant.tenantId, website: "x" });
      assert.equal(answer.status, 201);
      const { role, tenantId } = answer.body.user;
      assert.deepEqual({ role, tenantId }, { role: "VIEWER", tenantId: tenant.tenantId });
      const { tenantId: id } = tenant;
      assert.equal(await api.app.transact(({ em }) => em.count(User, { tenantId: id })), 1);
    });
  });
});

describe("POST /auth/complete-profile", () => {
  let api: TestApp;
  let tenant: Tenant;
  const complete = (token: string | undefined, body: object) =>
    api.post("/api/v1/auth/complete-profile", body, token === undefined ? {} : { token });
  const forget = (id: string) =>
    api.app.transact(async ({ em }) => {
      (await em.findOneOrFail(User, { id })).profileCompleted = false;
    });

  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  it("sets the user's name, and for an OWNER the tenant's, once", async () => {
    const { token, userId, tenantId, email } = tenant;
    await forget(userId);
    const answer = await complete(token, { name: "Ada King", tenantName: "Engines" });
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.body, {
      id: userId,
      email,
      name: "Ada King",
      tenantId,
      role: "OWNER",
      emailVerified: false,
      profileCompleted: true,
    });
    const stored = await api.app.transact(({ em }) => em.findOneOrFail(TenantEntity, { id: tenantId }));
    assert.equal(stored.name, "Engines");
    assertError(await complete(token, { name: "Another" }), 409, "INVALID_STATE");
  });

  it("does not let anybody but an OWNER name the tenant", async () => {
    const { userId, token } = await aMember(api, tenant.tenantId, "ADMIN");
    await forget(userId);
    assertError(await complete(token, { name: "Eve", tenantName: "Eve's" }), 403, "INSUFFICIENT_ROLE");
    assert.equal((await complete(token, { name: "Eve" })).body.name, "Eve");
  });
});
