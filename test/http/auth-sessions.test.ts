import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import { sql } from "kysely";
import { newRefreshToken } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { forgetSessions, startSession } from "../../src/domain/accounts/auth/sessions.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { Tenant as TenantEntity } from "../../src/domain/accounts/tenants/tenant.ts";
import { Player } from "../../src/domain/players/player.ts";
import { aKey, type Answer, aTenant, startApp } from "../support/app/app.ts";
import { aMember } from "../support/app/member.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

describe("POST /auth/refresh", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));
  const member = madeForEach(() => aMember(api, tenant.tenantId, "DEVELOPER"));

  const refresh = (refreshToken: string) => api.post("/api/v1/auth/refresh", { refreshToken });
  const sessionOf = (token: string): string => decodeJwt<{ sid: string }>(token).sid;
  const query = <T>(statement: ReturnType<typeof sql<T>>): Promise<T[]> =>
    api.app.transact(async ({ db }) => (await statement.execute(db)).rows);
  /** As if the session's tokens had been used so much earlier. */
  const passSeconds = (seconds: number) =>
    query(sql`update refresh_tokens set used_at = used_at - make_interval(secs => ${seconds})
      where session_id = ${sessionOf(member.token)}::uuid`);
  const tenantIs = (tenantId: string, values: Partial<TenantEntity>) =>
    api.app.transact(({ em }) => em.nativeUpdate(TenantEntity, { id: tenantId }, values));
  const seconds = ({ body }: Answer): number => body.expiresIn as number;

  it("gives new tokens of the same session, in the shape of a login", async () => {
    const answer = await refresh(member.refreshToken);
    assert.equal(answer.status, 200);
    const { accessToken, refreshToken, ...rest } = answer.body;
    const user = { id: member.userId, email: member.email, role: "DEVELOPER" };
    assert.deepEqual(rest, { tokenType: "Bearer", expiresIn: 604_800, user });
    assert.equal(sessionOf(accessToken), sessionOf(member.token));
    assert.notEqual(refreshToken, member.refreshToken);
    assert.equal((await api.get("/api/v1/auth/me", { token: accessToken })).status, 200);
    assert.equal((await refresh(refreshToken)).status, 200);
  });

  it("takes a used token again for 30 seconds, for parallel tabs and lost answers", async () => {
    const first = await refresh(member.refreshToken);
    await passSeconds(29);
    const second = await refresh(member.refreshToken);
    assert.equal(second.status, 200);
    assert.notEqual(first.body.refreshToken, second.body.refreshToken);
    for (const { body } of [first, second]) assert.equal((await refresh(body.refreshToken)).status, 200);
  });

  it("ends the session when a used token comes back later: the newest tokens die too", async () => {
    const newest = (await refresh(member.refreshToken)).body;
    await passSeconds(31);
    assertError(await refresh(member.refreshToken), 401, "REFRESH_TOKEN_REUSED");
    assertError(await refresh(newest.refreshToken), 401, "REFRESH_TOKEN_REVOKED");
    assertError(await refresh(member.refreshToken), 401, "REFRESH_TOKEN_REVOKED");
    assertError(await api.get("/api/v1/auth/me", { token: newest.accessToken }), 401, "SESSION_REVOKED");
    const told = await query(sql`select 1 from audit_log
      where action = 'session.reuse_detected' and target_id = ${sessionOf(member.token)}`);
    assert.equal(told.length, 1);
  });

  it("does not move the session's end, and no token outlives it", async () => {
    const sid = sessionOf(member.token);
    await query(sql`update sessions set expires_at = now() + interval '1 hour' where id = ${sid}::uuid`);
    const ends = () =>
      query<{ at: string }>(sql`select expires_at::text as at from sessions where id = ${sid}::uuid`);
    const before = await ends();
    let answer = await refresh(member.refreshToken);
    for (let i = 0; i < 3; i++) answer = await refresh(must(answer, 200).refreshToken);
    assert.deepEqual(await ends(), before);
    assert.ok(seconds(answer) <= 3_600 && seconds(answer) > 3_000, `${seconds(answer)} s`);
    const late = await query(sql`select 1 from refresh_tokens t join sessions s on s.id = t.session_id
      where s.id = ${sid}::uuid and t.used_at is null and t.expires_at <> s.expires_at`);
    assert.equal(late.length, 0);
    await query(sql`update sessions set expires_at = now() - interval '1 second' where id = ${sid}::uuid`);
    assertError(await refresh(answer.body.refreshToken), 401, "REFRESH_TOKEN_EXPIRED");
  });

  it("refuses a first token that was good for a few minutes only, once they are over", async () => {
    const short = await api.app.transact(async (work) => {
      const user = await work.em.findOneOrFail(User, { id: member.userId });
      const refreshUntil = new Date(work.now.getTime() - 1);
      return startSession(work, api.app.tokens, user, { method: "GOOGLE", refreshUntil });
    });
    assertError(await refresh(short.refreshToken), 401, "REFRESH_TOKEN_EXPIRED");
  });

  it("reads the role anew", async () => {
    await api.app.transact(({ em }) => em.nativeUpdate(User, { id: member.userId }, { role: "VIEWER" }));
    const { body } = await refresh(member.refreshToken);
    assert.equal(body.user.role, "VIEWER");
    assert.equal(decodeJwt(body.accessToken)["role"], "VIEWER");
  });

  it("is shut to a suspended tenant, and the same token works when that is over", async () => {
    const other = await aTenant(api);
    const owner = await aMember(api, other.tenantId, "OWNER");
    await tenantIs(other.tenantId, { approvalStatus: "SUSPENDED" });
    assertError(await refresh(owner.refreshToken), 403, "TENANT_SUSPENDED");
    await tenantIs(other.tenantId, { approvalStatus: "APPROVED" });
    assert.equal((await refresh(owner.refreshToken)).status, 200);
  });

  it("refuses what is no refresh token, and one that nobody was given", async () => {
    for (const text of ["", "x", member.token, `${member.refreshToken} `, newRefreshToken()]) {
      assertError(await refresh(text), 401, "REFRESH_TOKEN_INVALID");
    }
  });

  it("is done 60 times a minute for a session at most", async () => {
    const answers: Answer[] = [];
    for (let i = 0; i < 61; i++) answers.push(await refresh(member.refreshToken));
    const last = answers.pop()!;
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
    assertError(last, 429, "USER_RATE");
    assert.ok(Number(last.headers.get("retry-after")) >= 1);
    const other = await aMember(api, tenant.tenantId, "VIEWER");
    assert.equal((await refresh(other.refreshToken)).status, 200);
  });

  it("stores no token in clear", async () => {
    const { body } = await refresh(member.refreshToken);
    const found = await query(sql`select 1 from refresh_tokens t
      where to_jsonb(t)::text like ${`%${body.refreshToken.slice(7)}%`}`);
    assert.equal(found.length, 0);
  });
});

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

    it("tells the last use to a minute", async () => {
      const before = new Date(Date.now() - 3_600_000);
      await api.sql`update sessions set last_used_at = ${before.toISOString()}::timestamptz
        where id = ${idOf(member)}::uuid`;
      forgetSessions();
      await eventuallyHolds(async () => {
        const { data } = await list(member.token);
        assert.ok(Date.parse(data[0].lastUsedAt) > before.getTime());
      });
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
  });

  it("are open to members whom nobody has accepted, and who are suspended", async () => {
    for (const status of ["PENDING", "SUSPENDED"] as const) {
      const one = await aMember(api, tenant.tenantId, "VIEWER", status);
      assert.equal((await list(one.token)).pagination.total, 1);
      assert.equal((await logout(one.token)).status, 200);
    }
  });
});

describe("POST /auth/ws-token", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const wsToken = (body: object, credentials: { key?: string; token?: string }) =>
    api.post("/api/v1/auth/ws-token", body, credentials);
  const claimsOf = (answer: Answer) => api.app.tokens.verifyWs(answer.body.token);

  it("gives an API key a player's token, and makes the player of a new externalUserId once", async () => {
    const externalUserId = `user:${randomUUID()}`;
    const first = await wsToken({ externalUserId }, { key: tenant.key });
    assert.equal(first.status, 200);
    const { playerId, expiresIn, expiresAt } = first.body;
    assert.equal(expiresIn, 900);
    const { exp, ...claims } = await claimsOf(first);
    assert.equal(new Date(exp * 1_000).toISOString(), expiresAt);
    const { projectId: pid, tenantId: tid } = tenant;
    assert.deepEqual(claims, { sub: playerId, pid, tid, kind: "player", externalUserId });
    for (const body of [{ externalUserId }, { playerId }, { playerId: `ext:${externalUserId}` }]) {
      assert.equal((await wsToken(body, { key: tenant.key })).body.playerId, playerId);
    }
  });

  it("makes no player where the project does not want that, nor of an unknown playerId", async () => {
    const { token, projectId, key } = await aTenant(api);
    await api.patch(`/api/v1/projects/${projectId}`, { settings: { autoCreatePlayers: false } }, { token });
    for (const body of [
      { externalUserId: "nobody" },
      { playerId: "ext:nobody" },
      { playerId: randomUUID() },
    ]) {
      assertError(await wsToken(body, { key }), 404);
    }
    assertError(await wsToken({ playerId: "ext:nobody" }, { key: tenant.key }), 404);
    assertError(await wsToken({ playerId: "not-an-id" }, { key: tenant.key }), 404);
  });

  it("refuses a banned player", async () => {
    const { body } = await wsToken({ externalUserId: "troll" }, { key: tenant.key });
    await api.app.transact(async ({ em }) => {
      const player = await em.findOneOrFail(Player, { projectId: tenant.projectId, id: body.playerId });
      player.status = "BANNED";
    });
    assertError(await wsToken({ externalUserId: "troll" }, { key: tenant.key }), 403, "PLAYER_BANNED");
  });

  it("of a test key is for the sandbox's player", async () => {
    const { token, projectId } = tenant;
    const key = await aKey(api, { token, projectId, environment: "test" });
    const live = await wsToken({ externalUserId: "grace" }, { key: tenant.key });
    const test = await wsToken({ externalUserId: "grace" }, { key });
    assert.notEqual(test.body.playerId, live.body.playerId);
    const { body } = await api.get(`/api/v1/projects/${projectId}`, { token });
    assert.equal((await claimsOf(test)).pid, body.sandboxProjectId);
  });

  it("gives a console user a token for a project of the tenant, never a player's", async () => {
    const viewer = await aMember(api, tenant.tenantId, "VIEWER");
    const answer = await wsToken({ projectId: tenant.projectId }, { token: viewer.token });
    const { exp: _exp, ...claims } = await claimsOf(answer);
    const { projectId: pid, tenantId: tid } = tenant;
    assert.deepEqual(claims, { sub: viewer.userId, pid, tid, kind: "console" });
    assert.equal("playerId" in answer.body, false);
    const other = await aTenant(api);
    assertError(await wsToken({ projectId: other.projectId }, { token: viewer.token }), 404);
    assertError(await wsToken({ externalUserId: "ada" }, { token: viewer.token }), 400);
  });

  it("is given 60 times a minute to one player, and to one console user", async () => {
    const other = await aTenant(api);
    const ask = [
      () => wsToken({ externalUserId: "often" }, { key: other.key }),
      () => wsToken({ projectId: other.projectId }, { token: other.token }),
    ];
    for (const one of ask) {
      const answers = await Promise.all(Array.from({ length: 61 }, one));
      const refused = answers.filter(({ status }) => status !== 200);
      assert.equal(refused.length, 1);
      assertError(refused[0]!, 429, "USER_RATE");
      assert.ok(Number(refused[0]!.headers.get("retry-after")) >= 1);
    }
    assert.equal((await wsToken({ externalUserId: "another" }, { key: other.key })).status, 200);
  });
});

/** The promise is 5 s; the rest is for a slow machine. */

describe("an access token", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const change = (userId: string, values: Partial<User>) =>
    api.app.transact(({ em }) => em.nativeUpdate(User, { id: userId }, values));
  const me = (token: string) => api.get("/api/v1/auth/me", { token });
  const projects = (token: string) => api.get("/api/v1/projects", { token });
  it("has the role that the database says, not the one it was signed with", async () => {
    const { userId: sub, token: own } = await aMember(api, tenant.tenantId, "VIEWER");
    const { sid } = decodeJwt<{ sid: string }>(own);
    const claims = { sub, tid: tenant.tenantId, sid, role: "OWNER" } as const;
    const { token } = await api.app.tokens.signAccess(claims);
    assertError(await api.post("/api/v1/projects", { name: "Mine" }, { token }), 403, "INSUFFICIENT_ROLE");
  });

  it("of a user who is gone or of another tenant is refused", async () => {
    const { sid } = decodeJwt<{ sid: string }>(tenant.token);
    const claims = { sub: tenant.userId, tid: tenant.tenantId, sid, role: "OWNER" } as const;
    for (const wrong of [{ sub: randomUUID() }, { tid: randomUUID() }, { sid: randomUUID() }]) {
      const { token } = await api.app.tokens.signAccess({ ...claims, ...wrong });
      assertError(await projects(token), 401, "SESSION_REVOKED");
    }
  });

  it("of a member who is suspended opens their own account and nothing else", async () => {
    const { userId, token } = await aMember(api, tenant.tenantId, "ADMIN");
    await change(userId, { status: "SUSPENDED" });
    forgetSessions();
    assertError(await projects(token), 403, "MEMBERSHIP_SUSPENDED");
    assert.equal((await me(token)).status, 200);
  });

  it("of a suspended tenant opens people's own accounts alone; of a deleted one nothing", async () => {
    const { tenantId, token } = await aTenant(api);
    const set = (values: Partial<TenantEntity>) =>
      api.app.transact(({ em }) => em.nativeUpdate(TenantEntity, { id: tenantId }, values));
    await set({ approvalStatus: "SUSPENDED" });
    forgetSessions();
    assertError(await projects(token), 403, "TENANT_SUSPENDED");
    assert.equal((await me(token)).status, 200);
    await set({ deletedAt: new Date() });
    forgetSessions();
    assertError(await me(token), 401, "SESSION_REVOKED");
  });

  it("of a disabled user opens nothing", async () => {
    const { userId, token } = await aMember(api, tenant.tenantId, "OWNER");
    await change(userId, { disabledAt: new Date() });
    assertError(await me(token), 401, "SESSION_REVOKED");
  });
});
