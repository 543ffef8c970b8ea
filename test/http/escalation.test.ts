import assert from "node:assert/strict";
import { request } from "node:http";
import { User } from "../../src/domain/accounts/auth/user.ts";
import { deleteDueTenants } from "../../src/domain/accounts/tenants/deletion.ts";
import { anAdmin } from "../support/app/admin.ts";
import { aKey, aTenant, aWsToken, startApp } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { type Answer, must } from "../support/http/client.ts";
import { aMember } from "../support/app/member.ts";
import { anInvitation, putTenant } from "../support/operations/team.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

const SUPERADMIN_TRICKS = [
  "//superadmin/me",
  "/api/v1//superadmin/me",
  "/api/v1/../superadmin/me",
  "/api/v1/%2e%2e/superadmin/me",
  "/players/../superadmin/me",
  "/superadmin%2fme",
  "/superadmin%2Fme",
  "/%73uperadmin/me",
  "/SUPERADMIN/me",
  "/Api/V1/superadmin/me",
  "/superadmin/./me",
  "/superadmin/me;a=b",
  "/superadmin/me%20",
  "/superadmin/me%3f",
  "/superadmin\\me",
  "/api/v1/v1/superadmin/me",
];

describe("nobody climbs", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));
  const admin = madeForEach(() => anAdmin(api));
  const forbidden = (answer: Answer) => assertError(answer, 403, "INSUFFICIENT_ROLE");
  const roleOf = async (userId: string) =>
    (await api.app.transact(({ em }) => em.findOneOrFail(User, { id: userId }))).role;

  it("from ADMIN to OWNER, by any chain of requests", async () => {
    const { tenantId, userId: owner } = tenant;
    const { userId, token } = await aMember(api, tenantId, "ADMIN");
    const waiting = await aMember(api, tenantId, "VIEWER", "PENDING");
    const shut = await aMember(api, tenantId, "OWNER", "SUSPENDED");
    const ofOwner = await anInvitation(tenant, { role: "OWNER" });
    const by = { token };
    const email = "second.me@example.com";
    for (const path of ["/api/v1/team/invitations", "/api/v1/team/members"]) {
      forbidden(await api.post(path, { email: `a.${email}`, role: "OWNER" }, by));
      forbidden(await api.post(path, { email: `b.${email}`, role: "OWNER" }, { token }));
    }
    forbidden(await api.post("/api/v1/team/members", { email: waiting.email, role: "OWNER" }, by));
    for (const id of [userId, waiting.userId])
      forbidden(await api.patch(`/api/v1/team/members/${id}`, { role: "OWNER" }, by));
    const changes = [{ role: "VIEWER" }, { status: "SUSPENDED" }, { role: "OWNER", status: "SUSPENDED" }];
    for (const body of changes) forbidden(await api.patch(`/api/v1/team/members/${owner}`, body, by));
    forbidden(await api.patch(`/api/v1/team/members/${shut.userId}`, { status: "ACTIVE" }, by));
    forbidden(await api.delete(`/api/v1/team/members/${owner}`, by));
    forbidden(await api.delete(`/api/v1/team/members?id=${owner}`, by));
    const invitation = `/api/v1/team/invitations/${ofOwner.id}`;
    forbidden(await api.post(`${invitation}/resend`, {}, by));
    forbidden(await api.delete(invitation, by));
    const transfer = { userId, currentPassword: tenant.password };
    forbidden(await api.post("/api/v1/tenant/transfer-ownership", transfer, by));
    forbidden(await api.patch("/api/v1/tenant", { redirectUris: ["https://evil.example/"] }, by));
    for (const more of [{ role: "OWNER" }, { permissions: ["*"] }])
      must(await api.patch("/api/v1/auth/me", { name: "Mallory Moe", ...more }, by), 400);
    assert.deepEqual([await roleOf(userId), await roleOf(owner)], ["ADMIN", "OWNER"]);
  });

  it("from DEVELOPER to definitions, by any key", async () => {
    const { projectId } = tenant;
    const { token } = await aMember(api, tenant.tenantId, "DEVELOPER");
    const path = `/api/v1/projects/${projectId}/api-keys`;
    const make = (body: object) => api.post(path, { name: "Mine", ...body }, { token });
    for (const environment of ["live", "test"])
      for (const scopes of [["*"], ["rules:*"], ["config:manage"], ["players:read", "leaderboards:manage"]])
        forbidden(await make({ scopes, environment }));
    const mine = must(await make({ scopes: ["rules:read"], environment: "test" }), 201);
    for (const scopes of [["rules:manage"], ["*"]])
      forbidden(await api.patch(`${path}/${mine.id}`, { scopes }, { token }));
    const managers = must(await api.post(path, { name: "All", scopes: ["*"] }, { token: tenant.token }), 201);
    forbidden(await api.post(`${path}/${managers.id}/rotate`, {}, { token }));
    forbidden(await api.patch(`${path}/${managers.id}`, { expiresAt: null }, { token }));
    const { sandboxProjectId } = must(await api.get(`/api/v1/projects/${projectId}`, { token }), 200);
    const inSandbox = `/api/v1/projects/${sandboxProjectId}/api-keys`;
    assertError(await api.post(inSandbox, { name: "Mine" }, { token }), 409, "INVALID_STATE");
    assertError(await api.get(`${inSandbox}/${managers.id}`, { token }), 409, "INVALID_STATE");
    const test = await aKey(api, { token: tenant.token, projectId, environment: "test" });
    for (const key of [test, managers.key]) {
      assertError(await api.post(path, { name: "By a key" }, { key }), 403, "INSUFFICIENT_SCOPE");
      assertError(await api.get("/api/v1/team/members", { key }), 403, "INSUFFICIENT_SCOPE");
      assertError(
        await api.patch("/api/v1/tenant", { name: "By a key" }, { key }),
        403,
        "INSUFFICIENT_SCOPE",
      );
    }
  });

  it("over the limits of a plan that was lowered: what is beyond stays, nothing is added", async () => {
    const { token, projectId } = tenant;
    const keys = `/api/v1/projects/${projectId}/api-keys`;
    const second = must(await api.post("/api/v1/projects", { name: "Second" }, { token }), 201);
    await aMember(api, tenant.tenantId, "VIEWER");
    await aMember(api, tenant.tenantId, "VIEWER");
    const path = `/api/v1/superadmin/tenants/${tenant.tenantId}`;
    const none = { projects: 0, members: 0, activeKeysPerProject: 0 };
    must(await api.patch(path, { plan: "FREE", planOverrides: none }, { token: admin.token }), 200);
    const invited = { email: "late@example.com", role: "VIEWER" };
    const more = [
      await api.post("/api/v1/projects", { name: "Third" }, { token }),
      await api.post(keys, { name: "Third" }, { token }),
      await api.post("/api/v1/team/invitations", invited, { token }),
    ];
    for (const answer of more) assertError(answer, 402, "PLAN_LIMIT_EXCEEDED");
    must(await api.get(`/api/v1/projects/${second.id}`, { token }), 200);
    must(await api.get("/api/v1/players", { key: tenant.key }), 200);
    const nothing = { planOverrides: { requestsPerMinute: 0 } };
    const zero = await api.patch(path, nothing, { token: admin.token });
    if (zero.status === 200) {
      const answer = await api.get("/api/v1/players", { key: tenant.key });
      assertError(answer, 429, "PROJECT_RATE");
      assert.equal(answer.headers.get("x-ratelimit-remaining"), "0");
    } else assertError(zero, 400);
  });

  it("into rooms with a token of before, once the tenant is suspended or deleted", async () => {
    const join = async (token: string) => {
      const answer = await fetch(`${api.url}/matchmake/joinOrCreate/player`, {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
        body: "{}",
      });
      return [answer.status, ((await answer.json()) as { error?: { reason?: string } }).error?.reason];
    };
    const { token } = await aWsToken(api, tenant.key, "ada");
    assert.deepEqual(await join(token), [200, undefined]);
    const path = `/api/v1/superadmin/tenants/${tenant.tenantId}`;
    must(await api.post(`${path}/suspend`, { reason: "Fraud" }, { token: admin.token }), 200);
    assert.deepEqual(await join(token), [403, "TENANT_SUSPENDED"]);
    must(await api.post(`${path}/unsuspend`, {}, { token: admin.token }), 200);
    assert.deepEqual(await join(token), [200, undefined]);
    await putTenant(tenant.tenantId, { deleteAfter: new Date(Date.now() - 1_000) });
    await api.app.transact(deleteDueTenants);
    assert.equal((await join(token))[0], 404);
    assertError(await api.post(`${path}/approve`, {}, { token: admin.token }), 404);
  });

  it("to the platform by another spelling of its address, without a token or from outside", async () => {
    const shut = await anotherServer(api, { superadminAllowCidrs: ["192.0.2.0/24"] });
    const ask = (port: number, path: string, headers: Record<string, string>): Promise<number> =>
      new Promise((resolve, reject) => {
        const sent = request({ host: "127.0.0.1", port, path, headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        });
        sent.on("error", reject).end();
      });
    const bearer = { Authorization: `Bearer ${admin.token}` };
    for (const path of SUPERADMIN_TRICKS) {
      assert.equal(await ask(api.port, path, {}), 404, path);
      assert.equal(await ask(shut.port, path, bearer), 404, path);
    }
    for (const path of [
      "/superadmin/me",
      "/superadmin/me/",
      "/v1/superadmin/me?x=1",
      "/api/v1/superadmin/me",
    ]) {
      assert.equal(await ask(shut.port, path, bearer), 404, path);
      assert.notEqual(await ask(api.port, path, {}), 200, path);
    }
    const inside = { ...bearer, "X-Forwarded-For": "192.0.2.9, 203.0.113.1" };
    assert.equal(await ask(shut.port, "/superadmin/me", inside), 404, "a spoofed entry");
    assert.equal(
      await ask(shut.port, "/superadmin/me", { ...bearer, "X-Forwarded-For": "::FFFF:192.0.2.9" }),
      200,
    );
  });
});
