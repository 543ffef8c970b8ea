import assert from "node:assert/strict";
import { sql } from "kysely";
import type { User } from "../../src/domain/accounts/auth/user.ts";
import { anAdmin } from "../support/app/admin.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { aMember, aMemberWithPassword } from "../support/app/member.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import {
  anAuthenticator,
  passkeyOptions,
  totpCode,
  withPasskey,
  withTotp,
} from "../support/mfa/second-factor.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const MFA = "/api/v1/auth/mfa";
const PASSWORD = "Brass-Lantern-58";

describe("a second factor", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const own = () => ({ token: tenant.token });
  const requireIt = (requireSecondFactor: boolean, token = tenant.token) =>
    api.patch("/api/v1/tenant", { requireSecondFactor }, { token });
  /** A member with a password. */
  const aPerson = (role: User["role"]) =>
    aMemberWithPassword(api, tenant.tenantId, { role, password: PASSWORD });
  /** As if the session had proved its factor long ago. */
  const age = (userId: string) =>
    api.sql`update sessions set mfa_at = mfa_at - interval '10 minutes',
        created_at = created_at - interval '1 hour'
      where user_id = ${userId}::uuid`;

  describe("that the tenant requires", () => {
    it("is switched on by an OWNER who has one, and by nobody else", async () => {
      assertError(await requireIt(true), 409, "INVALID_STATE");
      const admin = await aPerson("ADMIN");
      await withTotp(api, admin);
      assertError(await requireIt(true, admin.token), 403, "INSUFFICIENT_ROLE");
      await withTotp(api, tenant);
      assert.equal(must(await requireIt(true), 200).requireSecondFactor, true);
      assert.equal(must(await api.get("/api/v1/tenant", own()), 200).requireSecondFactor, true);
      const [entry] = (await auditOf(api, tenant.tenantId)).slice(-1);
      assert.deepEqual(entry?.data, { requireSecondFactor: true });
    });

    it("leaves members without one nothing but to set one up, and then all of their role", async () => {
      const member = await aPerson("VIEWER");
      await withTotp(api, tenant);
      must(await requireIt(true), 200);
      const options = { token: member.token };
      for (const refused of [
        await api.get("/api/v1/projects", options),
        await api.patch("/api/v1/auth/me", { name: "Somebody Else" }, options),
        await api.get("/api/v1/auth/sessions", options),
        await api.post("/api/v1/auth/oauth/github/link", { redirect_uri: "https://a.example" }, options),
        await api.post("/api/v1/auth/ws-token", { projectId: tenant.projectId }, options),
        await api.post("/api/v1/team/leave", {}, options),
      ])
        assertError(refused, 403, "MFA_ENROLMENT_REQUIRED");
      const shown = must(await api.get("/api/v1/auth/me", options), 200);
      assert.deepEqual(
        new Set(shown.permissions),
        new Set([
          "logout",
          "getAccount",
          "getSecondFactors",
          "setUpTotp",
          "enableTotp",
          "disableTotp",
          "replaceRecoveryCodes",
          "startPasskey",
          "addPasskey",
          "renamePasskey",
          "removePasskey",
        ]),
      );
      assert.equal(must(await api.get(MFA, options), 200).required, true);
      await withTotp(api, member);
      must(await api.get("/api/v1/projects", options), 200);
    });

    it("is asked of who logs in and who is new, and API keys go on", async () => {
      await withTotp(api, tenant);
      must(await requireIt(true), 200);
      const member = await aPerson("DEVELOPER");
      const login = await api.post("/api/v1/auth/login", { email: member.email, password: PASSWORD });
      const { accessToken: token } = must(login, 200);
      assertError(await api.get("/api/v1/projects", { token }), 403, "MFA_ENROLMENT_REQUIRED");
      const { authenticator } = await withPasskey(api, { ...member, token });
      must(await api.get("/api/v1/projects", { token }), 200);
      const credential = authenticator.get(await passkeyOptions(api));
      must(await api.post("/api/v1/auth/passkeys/login", { credential }), 200);
      must(await api.get("/api/v1/players", { key: tenant.key }), 200);
    });

    it("cannot be removed as the last one, until the tenant requires none", async () => {
      const factor = await withTotp(api, tenant);
      must(await requireIt(true), 200);
      const asked = { currentPassword: tenant.password };
      assertError(await api.post(`${MFA}/totp/disable`, asked, own()), 409, "INVALID_STATE");
      must(await api.get(MFA, own()), 200).totp satisfies object;
      const { authenticator, passkeyId } = await withPasskey(api, tenant);
      must(await api.post(`${MFA}/totp/disable`, asked, own()), 200);
      const removal = { ...own(), body: asked };
      assertError(await api.delete(`${MFA}/passkeys/${passkeyId}`, removal), 409, "INVALID_STATE");
      must(await requireIt(false), 200);
      must(await api.delete(`${MFA}/passkeys/${passkeyId}`, removal), 200);
      assert.ok(authenticator && factor);
    });
  });

  describe("is asked again for what destroys", () => {
    const acts = async (): Promise<[string, () => ReturnType<typeof api.post>][]> => {
      const other = await aPerson("ADMIN");
      await withTotp(api, other);
      const currentPassword = tenant.password;
      return [
        ["PATCH tenant", () => requireIt(true)],
        ["redirects", () => api.patch("/api/v1/tenant", { redirectUris: [] }, own())],
        [
          "invite OWNER",
          () => api.post("/api/v1/team/invitations", { email: "o@example.com", role: "OWNER" }, own()),
        ],
        ["make OWNER", () => api.patch(`/api/v1/team/members/${other.userId}`, { role: "OWNER" }, own())],
        ["change OWNER", () => api.patch(`/api/v1/team/members/${other.userId}`, { role: "ADMIN" }, own())],
        ["DELETE project", () => api.delete(`/api/v1/projects/${tenant.projectId}`, own())],
        [
          "reset",
          () => api.post(`/api/v1/team/members/${other.userId}/reset-mfa`, { currentPassword }, own()),
        ],
        ["DELETE tenant", () => api.delete("/api/v1/tenant", { ...own(), body: { currentPassword } })],
        [
          "transfer",
          () =>
            api.post("/api/v1/tenant/transfer-ownership", { userId: other.userId, currentPassword }, own()),
        ],
      ];
    };

    it("by the session that has not proved it for ten minutes, and no longer once it has", async () => {
      const factor = await withTotp(api, tenant);
      for (const [name, act] of await acts()) {
        await age(tenant.userId);
        assertError(await act(), 403, "REAUTHENTICATION_REQUIRED");
        const verified = must(await api.post(`${MFA}/verify`, { code: await factor.code() }, own()), 200);
        assert.ok(Date.parse(verified.verifiedUntil) > Date.now(), name);
        must(await act(), name === "invite OWNER" ? 201 : 200);
      }
    });

    it("by a passkey too; a wrong code, another's passkey or a used challenge proves nothing", async () => {
      const { authenticator } = await withPasskey(api, tenant);
      const other = await withPasskey(api, await aPerson("ADMIN"));
      await age(tenant.userId);
      const verify = (passkey: object) => api.post(`${MFA}/verify`, { passkey }, own());
      assertError(await verify(other.authenticator.get(await passkeyOptions(api))), 403, "MFA_CODE_INVALID");
      assertError(await verify(anAuthenticator(api).get(await passkeyOptions(api))), 403, "MFA_CODE_INVALID");
      assertError(await api.post(`${MFA}/verify`, { code: "000000" }, own()), 403, "MFA_CODE_INVALID");
      assertError(await api.post(`${MFA}/verify`, {}, own()), 400);
      assertError(await requireIt(true), 403, "REAUTHENTICATION_REQUIRED");
      const options = await passkeyOptions(api);
      must(await verify(authenticator.get(options)), 200);
      must(await requireIt(true), 200);
      assertError(await verify(authenticator.get(options)), 403, "MFA_CODE_INVALID");
    });

    it("and guessing there is limited too", async () => {
      const factor = await withTotp(api, tenant);
      for (let i = 0; i < 10; i++)
        assertError(await api.post(`${MFA}/verify`, { code: "not-a-code" }, own()), 403, "MFA_CODE_INVALID");
      const answer = await api.post(`${MFA}/verify`, { code: await factor.code() }, own());
      assertError(answer, 429, "LOGIN_THROTTLED");
    });

    it("who has none and no password must have logged in a short while ago to set one up", async () => {
      const member = await aMember(api, tenant.tenantId, "VIEWER");
      const options = { token: member.token };
      const { secret } = must(await api.post(`${MFA}/totp/setup`, {}, options), 200);
      await age(member.userId);
      assertError(await api.post(`${MFA}/totp/setup`, {}, options), 403, "REAUTHENTICATION_REQUIRED");
      must(await api.post(`${MFA}/totp/enable`, { code: totpCode(secret) }, options), 200);
    });
  });

  describe("that was lost", () => {
    const reset = (memberId: string, token = tenant.token, currentPassword = tenant.password) =>
      api.post(`/api/v1/team/members/${memberId}/reset-mfa`, { currentPassword }, { token });

    it("is reset by an OWNER or ADMIN: all of it goes, sessions end, and the member is told", async () => {
      const [admin, member] = [await aPerson("ADMIN"), await aPerson("VIEWER")];
      const factor = await withTotp(api, member);
      const { authenticator } = await withPasskey(api, member);
      const answer = must(await reset(member.userId, admin.token, PASSWORD), 200);
      assert.equal(answer.mfaEnabled, false);
      assertError(await api.get(MFA, { token: member.token }), 401, "SESSION_REVOKED");
      const credential = authenticator.get(await passkeyOptions(api));
      assertError(await api.post("/api/v1/auth/passkeys/login", { credential }), 401, "PASSKEY_INVALID");
      const { accessToken } = must(
        await api.post("/api/v1/auth/login", { email: member.email, password: PASSWORD }),
        200,
      );
      assert.equal(must(await api.get(MFA, { token: accessToken }), 200).recoveryCodesLeft, 0);
      await aMailTo(member.email, /The second factor of your account was reset/);
      const entry = (await auditOf(api, member.userId)).findLast(({ action }) => action === "user.mfa_reset");
      assert.equal(entry?.actor, `user:${admin.userId}`);
      assert.equal(factor.recoveryCodes.length, 10);
    });

    it("is not reset by whom it is not up to, nor without the password, nor of another tenant", async () => {
      const [admin, member] = [await aPerson("ADMIN"), await aPerson("VIEWER")];
      await withTotp(api, tenant);
      assertError(await reset(tenant.userId, admin.token, PASSWORD), 403, "INSUFFICIENT_ROLE");
      assertError(await reset(admin.userId, member.token, PASSWORD), 403, "INSUFFICIENT_ROLE");
      assertError(await reset(member.userId, admin.token, "Wrong-horse-7"), 403, "INVALID_CREDENTIALS");
      assertError(await reset(member.userId, admin.token, PASSWORD), 409, "INVALID_STATE");
      assertError(await reset(tenant.userId), 409, "INVALID_STATE");
      const other = await aTenant(api);
      await withTotp(api, other);
      assertError(await reset(other.userId), 404);
    });

    it("of the only OWNER is reset by a super-admin, who says why", async () => {
      await withTotp(api, tenant);
      const { token } = await anAdmin(api);
      const path = `/api/v1/superadmin/users/${tenant.userId}/reset-mfa`;
      assertError(await api.post(path, {}, { token }), 400);
      assertError(await api.post(path, { reason: "Lost phone" }, own()), 401, "TOKEN_INVALID");
      assert.equal(must(await api.post(path, { reason: "Lost phone" }, { token }), 200).mfaEnabled, false);
      assertError(await api.post(path, { reason: "Lost phone" }, { token }), 409, "INVALID_STATE");
      const { email, password } = tenant;
      const { accessToken } = must(await api.post("/api/v1/auth/login", { email, password }), 200);
      const log = must(await api.get("/api/v1/audit-log?action=user.mfa_reset", { token: accessToken }), 200);
      assert.deepEqual(log.data[0].data, { reason: "Lost phone" });
    });
  });

  it("goes with the account it belongs to", async () => {
    const member = await aPerson("VIEWER");
    await withTotp(api, member);
    await withPasskey(api, member);
    must(await api.delete(`/api/v1/team/members/${member.userId}`, own()), 200);
    const left = await api.app.transact(async ({ db }) => {
      const { rows } = await sql<{ count: number }>`
        select (select count(*) from totp_secrets where owner_id = ${member.userId}::uuid)
          + (select count(*) from recovery_codes where owner_id = ${member.userId}::uuid)
          + (select count(*) from passkeys where owner_id = ${member.userId}::uuid) as count`.execute(db);
      return Number(rows[0]?.count);
    });
    assert.equal(left, 0);
  });
});
