import assert from "node:assert/strict";
import { Project } from "../../src/domain/accounts/projects/project.ts";
import { aKey, aTenant, startApp } from "../support/app/app.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { madeForEach, madeOnce } from "../support/made.ts";

describe("projects", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const path = (id = tenant.projectId) => `/api/v1/projects/${id}`;
  const configVersion = async (id: string) =>
    (await api.app.transact(({ em }) => em.findOneOrFail(Project, { id }))).configVersion;

  it("start with documented defaults", async () => {
    const { token } = tenant;
    const { status, body } = await api.post("/api/v1/projects", { name: "  Space Farmers " }, { token });
    assert.equal(status, 201);
    const { id, createdAt, updatedAt, ...rest } = body;
    assert.deepEqual(rest, {
      tenantId: tenant.tenantId,
      name: "Space Farmers",
      description: null,
      timezone: "UTC",
      settings: {
        weekStartsOn: 1,
        dayStartsAtMinutes: 0,
        autoCreatePlayers: true,
        maxEventAgeDays: null,
        allowLevelDown: false,
        createUnknownTargets: false,
        maxBoostFactor: 10,
        xpDailySoftCap: null,
        caps: [],
        lives: {
          enabled: false,
          max: 5,
          refillSeconds: 1_800,
          refillAmount: 1,
          start: 5,
          allowOverMax: false,
        },
        traceSampling: { live: 0.01, test: 1 },
        tracesDays: 7,
        activityDays: 30,
        executionsDays: 90,
        lobby: { onePerMode: true },
        chat: { directPolicy: "ALL" },
      },
      allowedOrigins: [],
      sandboxProjectId: null,
      sandboxOf: null,
    });
    assert.equal(createdAt, updatedAt);
    assert.deepEqual((await api.get(path(id), { token })).body, body);
  });

  it("are listed in pages, newest first, without sandboxes and without other tenants'", async () => {
    const { token, projectId } = tenant;
    await aKey(api, { token, projectId, environment: "test" });
    const second = await api.post("/api/v1/projects", { name: "Second" }, { token });
    const first = await api.get("/api/v1/projects?limit=1", { token });
    assert.deepEqual(first.body.pagination, { page: 1, limit: 1, total: 2, totalPages: 2 });
    assert.deepEqual(first.body.data, [{ ...second.body, hasEvents: false }]);
    const next = await api.get("/api/v1/projects?limit=1&page=2", { token });
    assert.equal(next.body.data[0].id, projectId);
    assert.deepEqual((await api.get("/api/v1/projects?page=9", { token })).body.data, []);
  });

  it("are listed with their sandboxes on request, and say whether they have got events", async () => {
    const { token, projectId, key } = tenant;
    const test = await aKey(api, { token, projectId, environment: "test" });
    const stranger = await aTenant(api);
    await aKey(api, { ...stranger, environment: "test" });
    const { sandboxProjectId } = (await api.get(path(), { token })).body;
    const list = async (sender: { token: string } | { key: string }) => {
      const { data, pagination } = (await api.get("/api/v1/projects?include=sandboxes&order=asc", sender))
        .body;
      assert.equal(pagination.total, data.length);
      return data.map(({ id, sandboxOf, hasEvents }: Record<string, unknown>) => [id, sandboxOf, hasEvents]);
    };
    const own = [projectId, null, false];
    assert.deepEqual(await list({ token }), [own, [sandboxProjectId, projectId, false]]);
    const event = { eventType: "game.won", externalUserId: "ada" };
    await api.post("/api/v1/events?wait=true", event, { key: test });
    await eventuallyHolds(async () =>
      assert.deepEqual(await list({ token }), [own, [sandboxProjectId, projectId, true]]),
    );
    assert.deepEqual(await list({ key }), [own]);
    assert.deepEqual(await list({ key: test }), [own, [sandboxProjectId, projectId, true]]);
    assert.deepEqual((await api.get("/api/v1/projects", { key: test })).body.data.length, 1);
  });

  it("are sorted and searched by what is asked for", async () => {
    const { token, projectId } = tenant;
    const names = async (query: string): Promise<string[]> =>
      must(await api.get(`/api/v1/projects${query}`, { token }), 200).data.map(
        ({ name }: { name: string }) => name,
      );
    for (const name of ["Beta", "Alpha 100%", "Gamma_x"])
      must(await api.post("/api/v1/projects", { name }, { token }), 201);
    const found = await names("?sort=name&order=asc");
    assert.deepEqual(found, ["Alpha 100%", "Beta", "Gamma_x", "Test Game"]);
    assert.deepEqual(await names("?sort=name"), found.toReversed());
    assert.deepEqual(await names("?order=asc"), ["Test Game", "Beta", "Alpha 100%", "Gamma_x"]);
    await api.patch(`/api/v1/projects/${projectId}`, { description: "Changed last" }, { token });
    assert.equal((await names("?sort=updatedAt&limit=1"))[0], "Test Game");
    assert.deepEqual(await names("?search=ALPHA"), ["Alpha 100%"]);
    assert.deepEqual(await names("?search=%25"), ["Alpha 100%"]);
    assert.deepEqual(await names("?search=_"), ["Gamma_x"]);
    assert.deepEqual(await names("?search=nothing"), []);
  });

  it("change only in what is given", async () => {
    const { token } = tenant;
    const before = (await api.get(path(), { token })).body;
    const change = { description: "A game", timezone: "Europe/Berlin", settings: { maxEventAgeDays: 30 } };
    const changed = (await api.patch(path(), change, { token })).body;
    const settings = { ...before.settings, maxEventAgeDays: 30 };
    assert.deepEqual(changed, { ...before, ...change, settings, updatedAt: changed.updatedAt });
    const back = (
      await api.patch(path(), { description: null, settings: { maxEventAgeDays: null } }, { token })
    ).body;
    assert.equal(back.description, null);
    assert.equal(back.settings.maxEventAgeDays, null);
    assert.equal(back.timezone, "Europe/Berlin");
  });

  it("raise their config version only when evaluation must see the change", async () => {
    const { token, projectId } = tenant;
    const start = await configVersion(projectId);
    await api.patch(path(), { name: "Other name" }, { token });
    assert.equal(await configVersion(projectId), start);
    await api.patch(path(), { timezone: "Asia/Tokyo" }, { token });
    await api.patch(path(), { settings: { allowLevelDown: true } }, { token });
    assert.equal(await configVersion(projectId), start + 2);
  });

  it("are gone with their keys and sandbox once deleted", async () => {
    const { token, projectId, key } = tenant;
    const testKey = await aKey(api, { token, projectId, environment: "test" });
    const { sandboxProjectId } = (await api.get(path(), { token })).body;
    assert.equal((await api.get(path(sandboxProjectId), { token })).body.sandboxOf, projectId);
    assert.equal((await api.delete(path(sandboxProjectId), { token })).body.error.reason, "INVALID_STATE");
    for (const one of [key, testKey])
      assert.equal((await api.get("/api/v1/projects", { key: one })).status, 200);

    assert.deepEqual((await api.delete(path(), { token })).body, { deleted: true });
    for (const id of [projectId, sandboxProjectId]) {
      assert.equal((await api.get(path(id), { token })).status, 404);
      const headers = { "X-Project-ID": id };
      assert.equal((await api.get("/api/v1/players", { token, headers })).status, 404);
    }
    assert.equal((await api.delete(path(), { token })).status, 404);
    assert.equal((await api.get("/api/v1/projects", { token })).body.pagination.total, 0);
    for (const one of [key, testKey]) {
      const answer = await api.get("/api/v1/projects", { key: one });
      assert.equal(answer.status, 401);
      assert.equal(answer.body.error.reason, "API_KEY_REVOKED");
    }
  });
});
