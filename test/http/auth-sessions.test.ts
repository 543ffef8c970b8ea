import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import { sql } from "kysely";
import { forgetSessions, startSession } from "../../src/domain/accounts/auth/sessions.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { aMember } from "../support/app/member.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

type Tokens = { token: string; refreshToken: string };

describe("sessions", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  const member = madeForEach(() => aMember(api, tenant.tenantId, "DEVELOPER"));

  const another = (userId = member.userId): Promise<Tokens> =>
    api.app.transact(async (work) => {
      const user = await work.em.findOneOrFail(User, { id: userId });
      const session = await startSession(work, api.app.tokens, user, { method: "PASSWORD" });
      return { token: session.accessToken, refreshToken: session.refreshToken };
    });
  const idOf = ({ token }: { token: string }): string => decodeJwt<{ sid: string }>(token).sid;
  const logout = (token: string, body: object = {}) => api.post("/api/v1/auth/logout", body, { token });
  const isOpen = async ({ token, refreshToken }: Tokens): Promise<boolean> => {
    const me = await api.get("/api/v1/auth/me", { token });
    const refreshed = await api.post("/api/v1/auth/refresh", { refreshToken });
    if (me.status === 200 && refreshed.status === 200) return true;
    assertError(me, 401, "SESSION_REVOKED");
    assertError(refreshed, 401, "REFRESH_TOKEN_REVOKED");
    return false;
  };
  const list = async (token: string) => must(await api.get("/api/v1/auth/sessions", { token }), 200);

  describe("POST /auth/logout", () => {
    it("ends the session of the access token at once, and no other", async () => {
      const other = await another();
      assert.equal((await api.get("/api/v1/projects", { token: member.token })).status, 200);
      assert.deepEqual((await logout(member.token)).body, { accepted: true });
      assert.equal(await isOpen(member), false);
      assert.equal(await isOpen(other), true);
    });

    it("works without a body, and in the other spellings of the path", async () => {
      assert.equal((await api.request("POST", "/auth/logout", { token: member.token })).status, 200);
      assert.equal(await isOpen(member), false);
    });

    it("ends the session of a refresh token with it", async () => {
      const [other, third] = [await another(), await another()];
      await logout(member.token, { refreshToken: other.refreshToken });
      assert.deepEqual(
        [await isOpen(member), await isOpen(other), await isOpen(third)],
        [false, false, true],
      );
    });

    it("ends every session of the user when asked", async () => {
      const [other, third] = [await another(), await another()];
      await logout(other.token, { all: true });
      for (const one of [member, other, third]) assert.equal(await isOpen(one), false);
    });

    it("never ends another user's session by their refresh token", async () => {
      const colleague = await aMember(api, tenant.tenantId, "VIEWER");
      const stranger = await aMember(api, (await aTenant(api)).tenantId, "VIEWER");
      for (const { refreshToken } of [colleague, stranger]) {
        assert.equal((await logout((await another()).token, { refreshToken })).status, 200);
      }
      assert.deepEqual([await isOpen(colleague), await isOpen(stranger)], [true, true]);
    });
  });

  describe("GET /auth/sessions", () => {
    it("lists the user's own that go on, newest first, and marks the one that asks", async () => {
      const { email, password } = await aTenant(api);
      const ip = anAddress();
      const headers = { "X-Forwarded-For": ip, "User-Agent": "Test browser 1.0" };
      const first = must(await api.post("/api/v1/auth/login", { email, password }, { headers }), 200);
      const { data, pagination } = await list(first.accessToken);
      assert.equal(pagination.total, 2, "the registration's and the login's");
      const { id, createdAt, lastUsedAt, expiresAt, ...shown } = data[0];
      const expected = { ip, userAgent: "Test browser 1.0", method: "PASSWORD", current: true };
      assert.deepEqual(shown, expected);
      assert.equal(id, idOf({ token: first.accessToken }));
      assert.equal(lastUsedAt, createdAt);
      assert.equal(Date.parse(expiresAt) - Date.parse(createdAt), 30 * 86_400_000);
      assert.equal(data[1].current, false);
    });

    it("does not list those that have ended, nor another user's", async () => {
      const [ended, over] = [await another(), await another()];
      await logout(ended.token);
      await api.app.transact(({ db }) =>
        sql`update sessions set expires_at = now() where id = ${idOf(over)}::uuid`.execute(db),
      );
      await aMember(api, tenant.tenantId, "VIEWER");
      const { data } = await list(member.token);
      assert.deepEqual(
        data.map(({ id }: { id: string }) => id),
        [idOf(member)],
      );
    });

    it("is paged", async () => {
      await another();
      const { body } = await api.get("/api/v1/auth/sessions?limit=1&page=2", { token: member.token });
      assert.deepEqual(body.pagination, { page: 2, limit: 1, total: 2, totalPages: 2 });
      assert.equal(body.data[0].id, idOf(member));
      assertError(await api.get("/api/v1/auth/sessions?limit=101", { token: member.token }), 400);
    });

    it("tells the last use to a minute", async () => {
      const before = new Date(Date.now() - 3_600_000);
      await api.app.transact(({ db }) =>
        sql`update sessions set last_used_at = ${before.toISOString()}::timestamptz
          where id = ${idOf(member)}::uuid`.execute(db),
      );
      forgetSessions();
      await eventuallyHolds(async () => {
        const { data } = await list(member.token);
        assert.ok(Date.parse(data[0].lastUsedAt) > before.getTime());
      });
    });

    it("keeps the newest hundred of a user", async () => {
      let newest = await another();
      for (let i = 0; i < 101; i++) newest = await another();
      const { pagination } = await list(newest.token);
      assert.equal(pagination.total, 100);
    });
  });

  describe("DELETE /auth/sessions/{sessionId}", () => {
    const end = (id: string, token = member.token) => api.delete(`/api/v1/auth/sessions/${id}`, { token });

    it("ends one session at once, also the one that asks", async () => {
      const other = await another();
      assert.deepEqual((await end(idOf(other))).body, { deleted: true });
      assert.equal(await isOpen(other), false);
      assertError(await end(idOf(other)), 404);
      assert.equal((await end(idOf(member))).status, 200);
      assert.equal(await isOpen(member), false);
    });

    it("finds no session of a colleague, of another tenant, or of nobody", async () => {
      const colleague = await aMember(api, tenant.tenantId, "VIEWER");
      const stranger = await aMember(api, (await aTenant(api)).tenantId, "VIEWER");
      for (const id of [idOf(colleague), idOf(stranger), randomUUID(), "x", "'"]) {
        assertError(await end(id, tenant.token), 404);
      }
      assert.deepEqual([await isOpen(colleague), await isOpen(stranger)], [true, true]);
    });

    it("is written into the audit log", async () => {
      const other = await another();
      await end(idOf(other));
      const { rows } = await api.app.transact(({ db }) =>
        sql<{ actor: string }>`select actor from audit_log
          where action = 'session.revoked' and target_id = ${idOf(other)}`.execute(db),
      );
      assert.deepEqual(rows, [{ actor: `user:${member.userId}` }]);
    });
  });

  it("are open to members whom nobody has accepted, and who are suspended", async () => {
    for (const status of ["PENDING", "SUSPENDED"] as const) {
      const one = await aMember(api, tenant.tenantId, "VIEWER", status);
      assert.equal((await list(one.token)).pagination.total, 1);
      assert.equal((await logout(one.token)).status, 200);
    }
  });
});
