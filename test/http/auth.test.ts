import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { decodeJwt } from "jose";
import { forgetSessions } from "../../src/domain/accounts/auth/sessions.ts";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { Tenant as TenantEntity } from "../../src/domain/accounts/tenants/tenant.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { aMember } from "../support/app/member.ts";
import { madeOnce } from "../support/made.ts";

/** The promise is 5 s; the rest is for a slow machine. */

describe("an access token", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  const change = (userId: string, values: Partial<User>) =>
    api.app.transact(({ em }) => em.nativeUpdate(User, { id: userId }, values));
  const me = (token: string) => api.get("/api/v1/auth/me", { token });
  const projects = (token: string) => api.get("/api/v1/projects", { token });

  it("is refused when it is missing, malformed, of another kind or in the wrong place", async () => {
    const body = { projectId: tenant.projectId };
    const ws = await api.post("/api/v1/auth/ws-token", body, { token: tenant.token });
    assertError(await api.get("/api/v1/projects"), 401, "CREDENTIALS_MISSING");
    assertError(await projects("x.y.z"), 401, "TOKEN_INVALID");
    assertError(await projects(ws.body.token), 401, "TOKEN_INVALID");
    assertError(await projects(tenant.key), 401, "TOKEN_INVALID");
  });

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

  it("has a new role within 5 seconds, in a process that was not told", async () => {
    const { userId, token } = await aMember(api, tenant.tenantId, "ADMIN");
    const make = () => api.post("/api/v1/projects", { name: "Mine" }, { token });
    assert.equal((await make()).status, 201);
    await change(userId, { role: "VIEWER" });
    await eventuallyHolds(async () => assertError(await make(), 403, "INSUFFICIENT_ROLE"));
  });

  it("dies within 5 seconds of its user's removal, in a process that was not told", async () => {
    const { userId, token } = await aMember(api, tenant.tenantId, "ADMIN");
    assert.equal((await projects(token)).status, 200);
    await api.app.transact(({ em }) => em.nativeDelete(User, { id: userId }));
    await eventuallyHolds(async () => assertError(await projects(token), 401, "SESSION_REVOKED"));
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
