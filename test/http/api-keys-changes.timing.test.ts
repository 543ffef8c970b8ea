import assert from "node:assert/strict";
import { ApiKey, forgetKeys, markExpiredKeys } from "../../src/domain/accounts/api-keys/api-key.ts";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMember } from "../support/app/member.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { pluck } from "../support/pluck.ts";

describe("a change of an API key", () => {
  let api: TestApp;
  let tenant: Tenant;

  const keysPath = (projectId = tenant.projectId) => `/api/v1/projects/${projectId}/api-keys`;
  const create = async (body: object = {}) =>
    must(await api.post(keysPath(), { name: "Game server", ...body }, { token: tenant.token }), 201);
  const patch = (id: string, body: object, token = tenant.token) =>
    api.patch(`${keysPath()}/${id}`, body, { token });
  const use = (key: string) => api.get("/api/v1/projects", { key });

  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  it("changes what is given and nothing else; null takes rate limit and expiry away", async () => {
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const { key: _secret, ...before } = await create({ rateLimit: 50, expiresAt, metadata: { a: 1 } });
    const renamed = must(await patch(before.id, { name: "  Match maker " }), 200);
    assert.deepEqual(renamed, { ...before, name: "Match maker", updatedAt: renamed.updatedAt });
    const change = { scopes: ["players:*"], rateLimit: 70, metadata: { b: 2 } };
    const changed = must(await patch(before.id, change), 200);
    const scopes = ["players:read", "players:write"];
    assert.deepEqual(changed, { ...renamed, ...change, scopes, updatedAt: changed.updatedAt });
    const cleared = must(await patch(before.id, { rateLimit: null, expiresAt: null }), 200);
    assert.deepEqual([cleared.rateLimit, cleared.expiresAt], [undefined, undefined]);
    assert.deepEqual(must(await patch(before.id, {}), 200), cleared);
    assert.deepEqual((await api.get(`${keysPath()}/${before.id}`, { token: tenant.token })).body, cleared);
  });

  it("counts at once for the next request of the key", async () => {
    const { id, key } = await create({ scopes: ["projects:read"] });
    assert.equal((await use(key)).status, 200);
    await patch(id, { scopes: ["events:write"] });
    assertError(await use(key), 403, "INSUFFICIENT_SCOPE");
    await patch(id, { scopes: ["*"] });
    assert.equal((await use(key)).status, 200);
  });

  it("cannot raise the rate limit above the plan's", async () => {
    const mine = await aTenant(api);
    await putOnPlan(api, mine.tenantId, "STARTER");
    const path = keysPath(mine.projectId);
    const { token } = mine;
    const made = must(await api.post(path, { name: "Server", rateLimit: 500 }, { token }), 201);
    for (const answer of [
      await api.post(path, { name: "Server", rateLimit: 501 }, { token }),
      await api.patch(`${path}/${made.id}`, { rateLimit: 501 }, { token }),
    ]) {
      assertError(answer, 400);
      assert.match(answer.body.error.message, /500/);
    }
    await putOnPlan(api, mine.tenantId, "STARTER", { requestsPerMinute: 900 });
    must(await api.patch(`${path}/${made.id}`, { rateLimit: 900 }, { token }), 200);
  });

  it("by a DEVELOPER neither grants nor keeps scopes that a DEVELOPER may not grant", async () => {
    const { token } = await aMember(api, tenant.tenantId, "DEVELOPER");
    const plain = await create({ scopes: ["events:write"] });
    for (const scopes of [["rules:manage"], ["*"], ["events:write", "config:*"]])
      assertError(await patch(plain.id, { scopes }, token), 403, "INSUFFICIENT_ROLE");
    const strong = await create({ scopes: ["rules:manage", "events:write"] });
    for (const body of [{ name: "Taken over" }, { scopes: ["events:write"] }, { rateLimit: 5 }])
      assertError(await patch(strong.id, body, token), 403, "INSUFFICIENT_ROLE");
    // To end a key that has leaked is never too much.
    const path = `${keysPath()}/${strong.id}`;
    assert.equal(must(await api.delete(path, { token }), 200).status, "REVOKED");
  });

  it("comes too late for a key that is revoked or expired", async () => {
    const revoked = await create();
    await api.delete(`${keysPath()}/${revoked.id}`, { token: tenant.token });
    const expired = await create({ expiresAt: new Date(Date.now() + 60_000).toISOString() });
    const past = new Date(Date.now() - 1_000);
    await api.app.transact(({ em }) => em.nativeUpdate(ApiKey, { id: expired.id }, { expiresAt: past }));
    for (const { id } of [revoked, expired]) {
      const later = new Date(Date.now() + 60_000).toISOString();
      assertError(await patch(id, { name: "Alive" }), 409, "INVALID_STATE");
      assertError(await patch(id, { expiresAt: later }), 409, "INVALID_STATE");
      assertError(await patch(id, { expiresAt: null }), 409, "INVALID_STATE");
    }
  });

  it("by time is EXPIRED in the list from its moment on, and in the table after the sweep", async () => {
    const { id, key } = await create({
      scopes: ["*"],
      expiresAt: new Date(Date.now() + 60_000).toISOString(),
    });
    const kept = await create({ expiresAt: new Date(Date.now() + 60_000).toISOString() });
    const past = new Date(Date.now() - 1_000);
    await api.app.transact(({ em }) => em.nativeUpdate(ApiKey, { id }, { expiresAt: past }));
    forgetKeys();
    assertError(await use(key), 401, "API_KEY_EXPIRED");
    const read = () =>
      api.app.transact(({ em }) => em.find(ApiKey, { id: [id, kept.id] }, { orderBy: { id: 1 } }));
    assert.equal((await api.get(`${keysPath()}/${id}`, { token: tenant.token })).body.status, "EXPIRED");
    await api.app.transact(markExpiredKeys);
    assert.deepEqual(pluck(await read(), "status"), ["EXPIRED", "ACTIVE"]);
    assertError(await use(key), 401, "API_KEY_EXPIRED");
    const list = (await api.get(keysPath(), { token: tenant.token })).body;
    assert.equal(list.find((one: { id: string }) => one.id === id).status, "EXPIRED");
  });
});
