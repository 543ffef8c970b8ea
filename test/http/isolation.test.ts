import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { aKey, type Answer, aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { pluck } from "../support/pluck.ts";

const rule = (amount: number) => ({
  key: "win",
  name: "Win",
  triggers: [{ kind: "EVENT", eventTypes: ["won"] }],
  actions: [{ type: "grant_xp", amount }],
});

describe("a sandbox", () => {
  let api: TestApp;
  let tenant: Tenant;
  let live: string;
  let test: string;
  let sandboxId: string;
  beforeEach(async () => {
    api = await startApp();
    tenant = await aTenant(api);
    const { token, projectId } = tenant;
    live = tenant.key;
    test = await aKey(api, { token, projectId, environment: "test" });
    const { body } = await api.get(`/api/v1/projects/${projectId}`, { token });
    sandboxId = body.sandboxProjectId;
  });

  const get = (path: string, key: string): Promise<Answer> => api.get(`/api/v1${path}`, { key });
  const post = (path: string, body: unknown, key: string): Promise<Answer> =>
    api.post(`/api/v1${path}`, body, { key });
  const make = async (path: string, body: unknown, key: string): Promise<string> => {
    const { status, body: made } = await post(path, body, key);
    assert.equal(status, 201, JSON.stringify(made));
    return made.id;
  };

  it("has rules of its own: an event fires those of its side only", async () => {
    for (const [key, amount] of [
      [live, 3],
      [test, 500],
    ] as const) {
      await make("/rules", rule(amount), key);
      await post("/rules/win/publish", {}, key);
    }
    for (const [key, amount] of [
      [live, 3],
      [test, 500],
    ] as const) {
      const event = { externalUserId: "ada", eventType: "won" };
      const { body } = await post("/events?wait=true", event, key);
      assert.equal(body.status, "PROCESSED");
      const { body: player } = await get("/players/ext:ada", key);
      assert.equal(player.xp, amount);
      const list = (await get("/events", key)).body.data;
      assert.deepEqual(pluck(list, "id"), [body.eventId]);
    }
    const only = await make("/rules", { ...rule(1), key: "only-live" }, live);
    assertError(await get(`/rules/${only}`, test), 404);
    assertError(await post("/rules/only-live/publish", {}, test), 404);
  });

  it("is what a test key's project names mean, and nothing that a live key may name", async () => {
    const { projectId } = tenant;
    await make("/players", { externalUserId: "ada" }, test);
    for (const name of [projectId, sandboxId, projectId.toUpperCase()]) {
      const headers = { "X-Project-ID": name };
      const { body } = await api.get("/api/v1/players", { key: test, headers });
      assert.equal(body.pagination.total, 1, name);
      const event = { externalUserId: "ada", eventType: "seen", projectId: name };
      assert.equal((await post("/events", event, test)).status, 200, name);
    }
    const headers = { "X-Project-ID": sandboxId };
    assertError(await api.get("/api/v1/players", { key: live, headers }), 403, "PROJECT_MISMATCH");
    assertError(await get(`/players?projectId=${sandboxId}`, live), 403, "PROJECT_MISMATCH");
    assertError(await get(`/projects/${sandboxId}`, live), 404);
    const event = { externalUserId: "ada", eventType: "seen", projectId: sandboxId };
    assertError(await post("/events", event, live), 400);
    assertError(
      await api.post("/api/v1/auth/ws-token", { externalUserId: "x" }, { key: live, headers }),
      403,
      "PROJECT_MISMATCH",
    );
  });

  it("is reached by console users who name it, is not listed, and has no keys of its own", async () => {
    const { token, projectId } = tenant;
    await make("/players", { externalUserId: "ada" }, test);
    const players = (headers: Record<string, string>) => api.get("/api/v1/players", { token, headers });
    assert.equal(
      (await players({})).body.pagination.total,
      0,
      "the only project is the one that is not a sandbox",
    );
    assert.equal((await players({ "X-Project-ID": sandboxId })).body.pagination.total, 1);
    const listed = (await api.get("/api/v1/projects", { token })).body.data;
    assert.deepEqual(pluck(listed, "id"), [projectId]);
    const sandboxKeys = `/api/v1/projects/${sandboxId}/api-keys`;
    assertError(await api.get(sandboxKeys, { token }), 409, "INVALID_STATE");
    assertError(await api.post(sandboxKeys, { name: "A key" }, { token }), 409, "INVALID_STATE");
    assertError(await api.delete(`/api/v1/projects/${sandboxId}`, { token }), 409, "INVALID_STATE");
  });
});

describe("the project of an event", () => {
  let api: TestApp;
  let tenant: Tenant;
  beforeEach(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  const aPlayerOf = async ({ key }: Tenant): Promise<{ id: string; externalUserId: string }> =>
    (await api.post("/api/v1/players", { externalUserId: randomUUID() }, { key })).body;

  it("decides whose player its playerId names", async () => {
    const player = await aPlayerOf(tenant);
    const second = (await api.post("/api/v1/projects", { name: "Second" }, { token: tenant.token })).body.id;
    const event = { name: "seen", playerId: player.id, projectId: tenant.projectId };
    for (const headers of [{}, { "X-Project-ID": second }] as Record<string, string>[]) {
      const sent = await api.post("/api/v1/events?wait=true", event, { token: tenant.token, headers });
      const { body } = await api.get(`/api/v1/events/${sent.body.eventId}`, { key: tenant.key });
      assert.equal(body.externalUserId, player.externalUserId);
    }
  });

  it("may be one that was made a moment ago", async () => {
    const { token } = tenant;
    const send = (projectId: string) =>
      api.post("/api/v1/events", { externalUserId: "u", eventType: "seen", projectId }, { token });
    assert.equal((await send(tenant.projectId)).status, 200);
    const second = (await api.post("/api/v1/projects", { name: "Second" }, { token })).body.id;
    assert.equal((await send(second)).status, 200);
    await api.delete(`/api/v1/projects/${second}`, { token });
    assertError(await send(second), 400);
  });

  it("never lets it touch another tenant's player", async () => {
    const stranger = await aTenant(api);
    const theirs = await aPlayerOf(stranger);
    const event = { name: "seen", playerId: theirs.id };
    const { body } = await api.post("/api/v1/events?wait=true", event, { key: tenant.key });
    assert.equal(body.status, "PROCESSED");
    const { body: after } = await api.get(`/api/v1/players/${theirs.id}`, { key: stranger.key });
    assert.deepEqual([after.seq, after.lastSeenAt], [1, null]);
    assertError(await api.get(`/api/v1/players/${theirs.id}`, { key: tenant.key }), 404);
    const item = { externalUserId: "u", eventType: "seen", projectId: stranger.projectId };
    const batch = await api.post("/api/v1/events/batch", { events: [item] }, { key: tenant.key });
    assert.deepEqual([batch.body.rejected, batch.body.results[0].eventId], [1, null]);
  });
});
