import assert from "node:assert/strict";
import { decodeJwt } from "jose";
import { sql } from "kysely";
import { newRefreshToken, TOKENS_PER_SESSION_MAX } from "../../src/domain/accounts/auth/one-time-secrets.ts";
import { startSession } from "../../src/domain/accounts/auth/sessions.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { Tenant as TenantEntity } from "../../src/domain/accounts/tenants/tenant.ts";
import { type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMember } from "../support/app/member.ts";
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

  it("leaves the user's other sessions alone when one ends by reuse", async () => {
    const other = await api.app.transact(async (work) => {
      const user = await work.em.findOneOrFail(User, { id: member.userId });
      return startSession(work, api.app.tokens, user, { method: "PASSWORD" });
    });
    await refresh(member.refreshToken);
    await passSeconds(31);
    assertError(await refresh(member.refreshToken), 401, "REFRESH_TOKEN_REUSED");
    assert.equal((await refresh(other.refreshToken)).status, 200);
  });

  it("gives twenty at once working tokens, of which one used the old token up", async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => refresh(member.refreshToken)));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
    const tokens = new Set(answers.map(({ body }) => body.refreshToken));
    assert.equal(tokens.size, 20);
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

  it("is shut to disabled users and deleted tenants", async () => {
    const { userId, refreshToken } = member;
    await api.app.transact(({ em }) => em.nativeUpdate(User, { id: userId }, { disabledAt: new Date() }));
    assertError(await refresh(refreshToken), 401, "REFRESH_TOKEN_REVOKED");
    const other = await aTenant(api);
    const owner = await aMember(api, other.tenantId, "OWNER");
    await tenantIs(other.tenantId, { deletedAt: new Date() });
    assertError(await refresh(owner.refreshToken), 401, "REFRESH_TOKEN_REVOKED");
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

  it("remembers a bounded number of tokens of a session, the newest", async () => {
    const sid = sessionOf(member.token);
    await query(sql`
      insert into refresh_tokens (hash, tenant_id, session_id, expires_at, used_at, created_at)
      select md5(${sid}::text || n), ${tenant.tenantId}::uuid, ${sid}::uuid, now() + interval '1 day', now(),
        now() - interval '1 hour' - make_interval(secs => n)
      from generate_series(1, ${TOKENS_PER_SESSION_MAX + 50}) n`);
    const { refreshToken } = must(await refresh(member.refreshToken), 200);
    const [left] = await query(sql<{ count: number }>`
      select count(*)::int as count from refresh_tokens where session_id = ${sid}::uuid`);
    assert.equal(left!.count, TOKENS_PER_SESSION_MAX);
    must(await refresh(member.refreshToken), 200);
    must(await refresh(refreshToken), 200);
  });

  it("stores no token in clear", async () => {
    const { body } = await refresh(member.refreshToken);
    const found = await query(sql`select 1 from refresh_tokens t
      where to_jsonb(t)::text like ${`%${body.refreshToken.slice(7)}%`}`);
    assert.equal(found.length, 0);
  });
});
