import assert from "node:assert/strict";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, type Answer, type Client, must } from "../support/http/client.ts";
import { laurelAdmin } from "../support/processes/command.ts";
import { superAdminOf, twoServers, type TwoServers } from "../support/processes/two-servers.ts";

/** What caches may be behind, and a little for the machine, in ms. */
const BEHIND = { timeoutMs: 7_000 };

describe("what is changed in one process", () => {
  let two: TwoServers;
  let adminToken: string;
  let here: Client;
  let there: Client;
  let tenant: Tenant;
  before(async () => {
    two = await twoServers();
    adminToken = await superAdminOf(two);
    [here, there] = two.clients;
  });
  beforeEach(async () => {
    tenant = await aTenant(here);
  });

  const mine = () => ({ token: tenant.token });
  const byAdmin = (path: string, body: object = {}) =>
    here.post(`/api/v1/superadmin${path}`, body, { token: adminToken });
  const project = () => `/api/v1/projects/${tenant.projectId}`;
  const newKey = async (): Promise<{ id: string; key: string }> =>
    must(await here.post(`${project()}/api-keys`, { name: "Server", scopes: ["*"] }, mine()), 201);

  type Case = {
    refusal: [status: number, reason: string];
    use: (at: Client) => Promise<Answer>;
    change: () => Promise<Answer>;
    undo?: () => Promise<Answer>;
  };
  const cases: Record<string, () => Promise<Case> | Case> = {
    "a member who is removed": async () => {
      const { userId, token } = await two.member(tenant, "ADMIN");
      return {
        refusal: [401, "SESSION_REVOKED"],
        use: (at) => at.get("/api/v1/projects", { token }),
        change: () => here.delete(`/api/v1/team/members/${userId}`, mine()),
      };
    },
    "a member who is suspended": async () => {
      const { userId, token } = await two.member(tenant, "VIEWER");
      return {
        refusal: [403, "MEMBERSHIP_SUSPENDED"],
        use: (at) => at.get("/api/v1/projects", { token }),
        change: () => here.patch(`/api/v1/team/members/${userId}`, { status: "SUSPENDED" }, mine()),
      };
    },
    "a session that is ended": () => ({
      refusal: [401, "SESSION_REVOKED"],
      use: (at) => at.get("/api/v1/auth/me", mine()),
      change: () => here.post("/api/v1/auth/logout", {}, mine()),
    }),
    "a user whom a super-admin disables": () => ({
      refusal: [401, "SESSION_REVOKED"],
      use: (at) => at.get("/api/v1/projects", mine()),
      change: () => byAdmin(`/users/${tenant.userId}/disable`, { reason: "Abuse" }),
    }),
    "a tenant that is suspended, in its keys": () => ({
      refusal: [403, "TENANT_SUSPENDED"],
      use: (at) => at.get("/api/v1/players", { key: tenant.key }),
      change: () => byAdmin(`/tenants/${tenant.tenantId}/suspend`, { reason: "Spam" }),
      undo: () => byAdmin(`/tenants/${tenant.tenantId}/unsuspend`),
    }),
    "a tenant that is suspended, in its people": () => ({
      refusal: [403, "TENANT_SUSPENDED"],
      use: (at) => at.get("/api/v1/projects", mine()),
      change: () => byAdmin(`/tenants/${tenant.tenantId}/suspend`, { reason: "Spam" }),
      undo: () => byAdmin(`/tenants/${tenant.tenantId}/unsuspend`),
    }),
    "a key that is revoked": async () => {
      const { id, key } = await newKey();
      return {
        refusal: [401, "API_KEY_REVOKED"],
        use: (at) => at.get("/api/v1/projects", { key }),
        change: () => here.delete(`${project()}/api-keys/${id}`, mine()),
      };
    },
    "a key that is rotated without grace": async () => {
      const { id, key } = await newKey();
      return {
        refusal: [401, "API_KEY_EXPIRED"],
        use: (at) => at.get("/api/v1/projects", { key }),
        change: () => here.post(`${project()}/api-keys/${id}/rotate`, { gracePeriodSeconds: 0 }, mine()),
      };
    },
    "a key that loses a scope": async () => {
      const { id, key } = await newKey();
      return {
        refusal: [403, "INSUFFICIENT_SCOPE"],
        use: (at) => at.get("/api/v1/projects", { key }),
        change: () => here.patch(`${project()}/api-keys/${id}`, { scopes: [] }, mine()),
      };
    },
    "a project that is deleted, in its keys": () => ({
      refusal: [401, "API_KEY_REVOKED"],
      use: (at) => at.get("/api/v1/projects", { key: tenant.key }),
      change: () => here.delete(project(), mine()),
    }),
    "an origin that is not on the list": () => ({
      refusal: [403, "ORIGIN_NOT_ALLOWED"],
      use: (at) =>
        at.get("/api/v1/players", { key: tenant.key, headers: { Origin: "https://evil.example" } }),
      change: () => here.patch(project(), { allowedOrigins: ["https://game.example.com"] }, mine()),
    }),
    "an address that is blocked": () => {
      const ip = anAddress();
      const path = `/api/v1/admin/rate-limits/ip/${ip}/block`;
      return {
        refusal: [403, "IP_BLOCKED"],
        use: (at) => at.get("/api/v1/limits", { headers: { "X-Forwarded-For": ip } }),
        change: () => here.post(path, { reason: "Abuse" }, { token: adminToken }),
        undo: () => here.delete(path, { token: adminToken }),
      };
    },
    "a platform token that is revoked": async () => {
      const made = must(await byAdmin("/tokens", { name: "Site build", scopes: ["blog:sync"] }), 201);
      const posts = [{ slug: "a-post", title: "A post", postDate: "2026-03-01" }];
      return {
        refusal: [401, "TOKEN_INVALID"],
        use: (at) => at.post("/superadmin/blog-posts/sync", { posts }, { token: made.token }),
        change: () => here.delete(`/superadmin/tokens/${made.id}`, { token: adminToken }),
      };
    },
  };
  for (const [what, make] of Object.entries(cases))
    it(`the other process knows within 5 s: ${what}`, async () => {
      const { refusal, use, change, undo } = await make();
      for (const at of two.clients) must(await use(at), 200);
      assert.ok((await change()).status < 300);
      assertError(await use(here), ...refusal);
      await eventuallyHolds(async () => assertError(await use(there), ...refusal), BEHIND);
      if (!undo) return;
      must(await undo(), 200);
      must(await use(here), 200);
      await eventuallyHolds(async () => void must(await use(there), 200), BEHIND);
    });

  it("of a member's role, the other goes by at once for changes, within 5 s for reads", async () => {
    const admin = await two.member(tenant, "ADMIN");
    const rename = () => there.patch("/api/v1/tenant", { name: "Renamed" }, { token: admin.token });
    const readLog = () => there.get("/api/v1/audit-log", { token: admin.token });
    must(await rename(), 200);
    must(await readLog(), 200);
    const path = `/api/v1/team/members/${admin.userId}`;
    must(await here.patch(path, { role: "DEVELOPER" }, mine()), 200);
    assertError(await rename(), 403, "INSUFFICIENT_ROLE");
    await eventuallyHolds(async () => assertError(await readLog(), 403, "INSUFFICIENT_ROLE"), BEHIND);
  });

  it("by ending a session, nothing that lasts is made through the other any more", async () => {
    const { token } = await two.member(tenant, "ADMIN");
    must(await there.get("/api/v1/tenant", { token }), 200);
    must(await here.post("/api/v1/auth/logout", {}, { token }), 200);
    const invitation = { email: anAddress(), role: "ADMIN" };
    for (const made of [
      await there.post(`${project()}/api-keys`, { name: "Left behind", scopes: ["*"] }, { token }),
      await there.post("/api/v1/team/invitations", invitation, { token }),
      await there.patch("/api/v1/tenant", { redirectUris: ["https://evil.example/cb"] }, { token }),
    ])
      assertError(made, 401, "SESSION_REVOKED");
    const admin = { token: await superAdminOf(two) };
    must(await there.get("/api/v1/superadmin/me", admin), 200);
    must(await here.post("/api/v1/superadmin/auth/logout", {}, admin), 200);
    const made = await there.post("/api/v1/superadmin/tokens", { name: "x", scopes: ["stats:read"] }, admin);
    assertError(made, 401, "SESSION_REVOKED");
  });

  it("of a plan, the other's limits go by within 5 s, and unlimited tells none", async () => {
    const limit = async (): Promise<string | null> => {
      const answer = await there.get("/api/v1/projects", { key: tenant.key });
      must(answer, 200);
      return answer.headers.get("x-ratelimit-limit");
    };
    const plan = async (body: object) => {
      const path = `/api/v1/superadmin/tenants/${tenant.tenantId}`;
      must(await here.patch(path, body, { token: adminToken }), 200);
    };
    await plan({ plan: "FREE" });
    await eventuallyHolds(async () => assert.equal(await limit(), "100"), BEHIND);
    await plan({ planOverrides: { requestsPerMinute: 777 } });
    await eventuallyHolds(async () => assert.equal(await limit(), "777"), BEHIND);
    await plan({ plan: "ENTERPRISE", planOverrides: { requestsPerMinute: null } });
    await eventuallyHolds(async () => assert.equal(await limit(), null), BEHIND);
  });

  it("of a deleted project, users and tokens of the other know within 5 s", async () => {
    const { projectId, token, key } = tenant;
    const uses = [
      () => there.get(`/api/v1/projects/${projectId}`, { token }),
      () => there.get("/api/v1/players", { token, headers: { "X-Project-ID": projectId } }),
      () => there.post("/api/v1/auth/ws-token", { projectId }, { token }),
      () => there.post("/api/v1/auth/ws-token", { externalUserId: "ann" }, { key }),
      () => there.post("/api/v1/events", { projectId, externalUserId: "ann", eventType: "x" }, { token }),
    ];
    for (const use of uses) must(await use(), 200);
    must(await here.delete(`/api/v1/projects/${projectId}`, { token }), 200);
    await eventuallyHolds(async () => {
      for (const use of uses) assert.ok([400, 401, 404].includes((await use()).status));
    }, BEHIND);
  });

  it("by the command that disables a super-admin, both know within 5 s", async () => {
    const email = `root-${tenant.tenantId}@platform.example.com`;
    const token = await superAdminOf(two, email);
    for (const at of two.clients) must(await at.get("/superadmin/me", { token }), 200);
    const { code, text } = await laurelAdmin(["disable", email], two.services.env, "");
    assert.equal(code, 0, text);
    await eventuallyHolds(async () => {
      for (const at of two.clients)
        assertError(await at.get("/superadmin/me", { token }), 401, "SESSION_REVOKED");
    }, BEHIND);
  });
});
