import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, type Answer, type Client, must } from "../support/http/client.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { twoServers, superAdminOf, type TwoServers } from "../support/processes/two-servers.ts";

/** What caches may be behind, and a little for the machine, in ms. */
const BEHIND = { timeoutMs: 7_000 };
const ROUNDS = 6;

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

  const turn = (i: number): Client => two.clients[i % 2]!;
  const byAdmin = (path: string, body: object) =>
    here.post(`/api/v1/superadmin${path}`, body, { token: adminToken });
  const auditCount = async (target: string, action: string): Promise<number> => {
    const { rows } = await sql<{ n: string }>`
      select count(*) as n from audit_log where target_id = ${target} and action = ${action}`.execute(
      two.database.em.fork().getKysely(),
    );
    return Number(rows[0]!.n);
  };

  it("of a member's role, the other goes by at once for changes, within 5 s for reads", async () => {
    const admin = await two.member(tenant, "ADMIN");
    const rename = () => there.patch("/api/v1/tenant", { name: "Renamed" }, { token: admin.token });
    const readLog = () => there.get("/api/v1/audit-log", { token: admin.token });
    must(await rename(), 200);
    must(await readLog(), 200);
    const path = `/api/v1/team/members/${admin.userId}`;
    must(await here.patch(path, { role: "DEVELOPER" }, { token: tenant.token }), 200);
    assertError(await rename(), 403, "INSUFFICIENT_ROLE");
    await eventuallyHolds(async () => assertError(await readLog(), 403, "INSUFFICIENT_ROLE"), BEHIND);
  });

  it("by ending a session, nothing that lasts is made through the other any more", async () => {
    const { token } = await two.member(tenant, "ADMIN");
    must(await there.get("/api/v1/tenant", { token }), 200);
    must(await here.post("/api/v1/auth/logout", {}, { token }), 200);
    const keys = `/api/v1/projects/${tenant.projectId}/api-keys`;
    const invitation = { email: anAddress(), role: "ADMIN" };
    for (const made of [
      await there.post(keys, { name: "Left behind", scopes: ["*"] }, { token }),
      await there.post("/api/v1/team/invitations", invitation, { token }),
      await there.patch("/api/v1/tenant", { redirectUris: ["https://evil.example/cb"] }, { token }),
    ])
      assertError(made, 401, "SESSION_REVOKED");
    const admin = await superAdminOf(two);
    const mine = { token: admin };
    must(await there.get("/api/v1/superadmin/me", mine), 200);
    must(await here.post("/api/v1/superadmin/auth/logout", {}, mine), 200);
    const made = await there.post("/api/v1/superadmin/tokens", { name: "x", scopes: ["stats:read"] }, mine);
    assertError(made, 401, "SESSION_REVOKED");
    adminToken = await superAdminOf(two);
  });

  it("by removing a member, the other knows within 5 s", async () => {
    const { userId, token } = await two.member(tenant, "ADMIN");
    const read = () => there.get("/api/v1/projects", { token });
    must(await read(), 200);
    must(await here.delete(`/api/v1/team/members/${userId}`, { token: tenant.token }), 200);
    await eventuallyHolds(async () => assertError(await read(), 401, "SESSION_REVOKED"), BEHIND);
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

  it("of a deleted project, users, keys and tokens of the other know within 5 s", async () => {
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

  it("of a block of an address, the other knows within 5 s, and of its end", async () => {
    const ip = anAddress();
    const read = () => there.get("/api/v1/limits", { headers: { "X-Forwarded-For": ip } });
    must(await read(), 200);
    const path = `/api/v1/admin/rate-limits/ip/${ip}/block`;
    must(await here.post(path, { reason: "Abuse" }, { token: adminToken }), 200);
    await eventuallyHolds(async () => assertError(await read(), 403, "IP_BLOCKED"), BEHIND);
    must(await here.delete(path, { token: adminToken }), 200);
    await eventuallyHolds(async () => void must(await read(), 200), BEHIND);
  });

  it("is decided once when both are asked: approvals, users, tokens, with one line in the log", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const other = await aTenant(here);
      const { tenantId, userId } = other;
      await two.database.em
        .fork()
        .getConnection()
        .execute(`update tenants set approval_status = 'PENDING' where id = '${tenantId}'`);
      const name = `Token ${round}`;
      const body = { name, scopes: ["blog:sync"] };
      const made = must(await byAdmin("/tokens", body), 201) as { id: string };
      const token = adminToken;
      const acts: [target: string, action: string, act: (client: Client) => Promise<Answer>][] = [
        [
          tenantId,
          "tenant.approved",
          (at) => at.post(`/superadmin/tenants/${tenantId}/approve`, {}, { token }),
        ],
        [
          userId,
          "user.disabled",
          (at) => at.post(`/superadmin/users/${userId}/disable`, { reason: "Spam" }, { token }),
        ],
        [userId, "user.enabled", (at) => at.post(`/superadmin/users/${userId}/enable`, {}, { token })],
        [made.id, "platform_token.revoked", (at) => at.delete(`/superadmin/tokens/${made.id}`, { token })],
      ];
      for (const [target, action, act] of acts) {
        const answers = await Promise.all([0, 1, 2, 3].map((i) => act(turn(i))));
        const statuses = answers.map(({ status }) => status).toSorted();
        assert.deepEqual(statuses, [200, 409, 409, 409], action);
        assert.equal(await auditCount(target, action), 1, action);
      }
    }
  });

  it("leaves an OWNER, by whatever routes two OWNERs go at each other and themselves at once", async () => {
    const strikes = (by: string, userId: string, password: string, other: string) => [
      (at: Client) => at.patch(`/team/members/${other}`, { role: "VIEWER" }, { token: by }),
      (at: Client) => at.patch(`/team/members/${other}`, { status: "SUSPENDED" }, { token: by }),
      (at: Client) => at.delete(`/team/members/${other}`, { token: by }),
      (at: Client) => at.delete(`/team/members?id=${other}`, { token: by }),
      (at: Client) => at.patch(`/team/members/${userId}`, { role: "ADMIN" }, { token: by }),
      (at: Client) => at.delete(`/team/members/${userId}`, { token: by }),
      (at: Client) => at.post("/team/leave", {}, { token: by }),
      (at: Client) =>
        at.post("/tenant/transfer-ownership", { userId: other, currentPassword: password }, { token: by }),
    ];
    for (let round = 0; round < ROUNDS; round++) {
      const first = await aTenant(here);
      const second = await two.member(first, "OWNER");
      const all = [
        ...strikes(first.token, first.userId, first.password, second.userId),
        ...strikes(second.token, second.userId, first.password, first.userId),
      ];
      const mixed = all.toSorted(() => Math.random() - 0.5);
      const answers = await Promise.all(mixed.map((strike, i) => strike(turn(i))));
      for (const { status, body } of answers)
        assert.ok([200, 401, 403, 404, 409, 429].includes(status), JSON.stringify(body));
      const { rows } = await sql<{ n: string }>`
        select count(*) as n from users where tenant_id = ${first.tenantId}::uuid
          and role = 'OWNER' and status = 'ACTIVE' and disabled_at is null`.execute(
        two.database.em.fork().getKysely(),
      );
      assert.ok(Number(rows[0]!.n) >= 1, "no OWNER is left");
    }
  });
});
