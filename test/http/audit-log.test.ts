import assert from "node:assert/strict";
import { audit } from "../../src/domain/accounts/audit/audit.ts";
import { anAdmin } from "../support/app/admin.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { anAddress, must } from "../support/http/client.ts";
import { aMember } from "../support/app/member.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

const LOG = "/api/v1/audit-log";

describe("the audit log", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const list = async (query = "", token = tenant.token) => must(await api.get(LOG + query, { token }), 200);
  const write = (action: string, at: string) =>
    api.app.transact((work) => {
      const entry = { action, target: { type: "thing", id: "x" }, tenantId: tenant.tenantId };
      return audit({ ...work, serverNow: new Date(at) }, entry);
    });

  it("tells who did what, from where, by which request", async () => {
    const headers = { "X-Forwarded-For": "10.9.8.7", "X-Request-Id": "request-of-the-test" };
    must(await api.patch("/api/v1/tenant", { name: "New name" }, { token: tenant.token, headers }), 200);
    const { id, createdAt, ...entry } = (await list("?action=tenant.updated")).data[0];
    assert(id !== undefined && createdAt !== undefined);
    assert.deepEqual(entry, {
      tenantId: tenant.tenantId,
      actor: `user:${tenant.userId}`,
      action: "tenant.updated",
      target: { type: "tenant", id: tenant.tenantId },
      ip: "10.9.8.7",
      requestId: "request-of-the-test",
      data: { name: "New name" },
    });
  });

  it("is listed newest first, in pages, by action and time", async () => {
    await write("thing.made", "2025-01-01T00:00:00.000Z");
    await write("thing.changed", "2025-01-02T00:00:00.000Z");
    await write("thing.made", "2025-01-03T00:00:00.000Z");
    const times = async (query: string) =>
      (await list(query)).data.map(({ createdAt }: { createdAt: string }) => createdAt.slice(0, 10));
    assert.deepEqual(await times("?action=thing.made"), ["2025-01-03", "2025-01-01"]);
    const span = "?from=2025-01-01T00:00:00Z&to=2025-01-03T00:00:00Z";
    assert.deepEqual(await times(span), ["2025-01-02", "2025-01-01"]);
    const page = await list(`${span}&limit=1&page=2`);
    assert.deepEqual(page.pagination, { page: 2, limit: 1, total: 2, totalPages: 2 });
    assert.equal(page.data[0].action, "thing.made");
    for (const query of ["?from=yesterday", "?limit=0", "?actor=", "?action="])
      assertError(await api.get(LOG + query, { token: tenant.token }), 400);
  });

  it("is listed by actor, of the own tenant alone", async () => {
    must(await api.patch("/api/v1/tenant", { name: "New name" }, { token: tenant.token }), 200);
    await write("thing.made", "2025-01-01T00:00:00.000Z");
    const actionsOf = async (actor: string, token = tenant.token) =>
      (await list(`?actor=${actor}`, token)).data.map(({ action }: { action: string }) => action);
    assert.deepEqual(await actionsOf("system"), ["thing.made"]);
    const own = await actionsOf(`user:${tenant.userId}`);
    assert.ok(own.includes("tenant.updated") && !own.includes("thing.made"));
    assert.deepEqual(await actionsOf("user:nobody"), []);
    const other = await aTenant(api);
    assert.deepEqual(await actionsOf(`user:${tenant.userId}`, other.token), []);
    assert.deepEqual(await actionsOf("system", other.token), []);
  });

  it("of a tenant does not tell from where the platform's people work", async () => {
    const member = await aMember(api, tenant.tenantId, "VIEWER");
    const { token } = await anAdmin(api);
    const [from, reason] = [anAddress(), "Fraud"];
    const path = `/api/v1/superadmin/users/${member.userId}/disable`;
    must(await api.post(path, { reason }, { token, headers: { "X-Forwarded-For": from } }), 200);
    const query = "?action=user.disabled&limit=1";
    const [theirs] = (await list(query)).data;
    const [ours] = must(await api.get(`/api/v1/superadmin/audit-log${query}`, { token }), 200).data;
    assert.deepEqual([theirs.target.id, theirs.actor, theirs.ip], [member.userId, ours.actor, ""]);
    assert.deepEqual([ours.target.id, ours.ip], [member.userId, from]);
  });
});
