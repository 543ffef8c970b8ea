import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { DEFINITION_KINDS } from "../../src/domain/registries/definition-kinds.ts";
import { aKey, aTenant, startApp, type Tenant } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { auditOf } from "../support/app/game.ts";
import { must } from "../support/http/client.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const rule = (key: string, amount: number) => ({
  key,
  name: key,
  triggers: [{ kind: "EVENT", eventTypes: [key] }],
  actions: [{ type: "grant_xp", amount }],
});
const board = (key: string, more: object = {}) => ({
  key,
  name: key,
  metric: { source: "CUSTOM" },
  operator: "SUM",
  ...more,
});
const definitions = Object.fromEntries(DEFINITION_KINDS.map(({ plural }) => [plural, 0]));
const nothing = { rules: 0, leaderboards: 0, levelCurve: 0, analyticsReports: 0, definitions, skipped: [] };

describe("the sandbox of a project", () => {
  let tenant: Tenant;
  let live: string;
  let test: string;
  let sandboxId: string;

  const path = (suffix: string, id = tenant.projectId) => `/api/v1/projects/${id}/sandbox${suffix}`;
  const open = (token = tenant.token, id = tenant.projectId) => api.post(path("", id), {}, { token });
  const sync = (token = tenant.token, id = tenant.projectId) => api.post(path("/sync", id), {}, { token });
  const synced = async () => {
    const { sandboxProjectId, ...counts } = must(await sync(), 200);
    assert.equal(sandboxProjectId, sandboxId);
    return counts;
  };
  const get = async (where: string, key: string) => must(await api.get(`/api/v1${where}`, { key }), 200);
  const make = async (where: string, body: unknown, key: string) =>
    must(await api.post(`/api/v1${where}`, body, { key }), 201);
  const act = async (where: string, key: string, body: unknown = {}) =>
    must(await api.post(`/api/v1${where}`, body, { key }), 200);
  const aRule = async (key: string, amount: number, owner: string) => {
    await make("/rules", rule(key, amount), owner);
    await act(`/rules/${key}/publish`, owner);
  };

  const api = madeOnce(startApp);
  beforeEach(async () => {
    tenant = await aTenant(api);
    live = tenant.key;
    const { token, projectId } = tenant;
    test = await aKey(api, { token, projectId, environment: "test" });
    sandboxId = must(await api.get(`/api/v1/projects/${projectId}`, { token }), 200).sandboxProjectId;
  });

  describe("when created by itself", () => {
    it("is made once, and shown by its project", async () => {
      const { token, projectId } = await aTenant(api);
      const first = await open(token, projectId);
      assert.equal(first.status, 201);
      assert.equal(first.body.projectId, projectId);
      assert.deepEqual(must(await open(token, projectId), 200), first.body);
      const { sandboxProjectId } = must(await api.get(`/api/v1/projects/${projectId}`, { token }), 200);
      assert.equal(sandboxProjectId, first.body.sandboxProjectId);
      const [made] = await auditOf(api, sandboxProjectId);
      assert.deepEqual([made?.action, made?.data.projectId], ["sandbox.created", projectId]);
    });

    it("has no sandbox itself", async () => {
      assertError(await open(tenant.token, sandboxId), 409, "INVALID_STATE");
      assertError(await sync(tenant.token, sandboxId), 409, "INVALID_STATE");
    });
  });

  it("gets rules, boards, curve and settings of the project, with ids of its own, and they run", async () => {
    await aRule("won", 30, live);
    await make("/rules", rule("draft", 1), live);
    await make("/leaderboards", board("top"), live);
    await make("/leaderboards", board("xp", { metric: { source: "XP" }, operator: undefined }), live);
    const curve = { type: "LINEAR", params: { base: 10, maxLevel: 9 } };
    must(await api.put("/api/v1/level-curve", curve, { key: live }), 200);
    const settings = { allowLevelDown: true, maxEventAgeDays: 90, autoCreatePlayers: true };
    const fields = { timezone: "Asia/Tokyo", settings, allowedOrigins: ["https://a.example"] };
    const { token, projectId } = tenant;
    must(await api.patch(`/api/v1/projects/${projectId}`, fields, { token }), 200);
    const player = await make("/players", { externalUserId: "ada" }, test);
    await make(`/players/${player.id}/xp`, { amount: 40, reason: "before" }, test);

    assert.deepEqual(await synced(), { ...nothing, rules: 2, leaderboards: 2, levelCurve: 1 });

    const [mine, theirs] = [await get("/rules/won", live), await get("/rules/won", test)];
    assert.notEqual(mine.id, theirs.id);
    assert.deepEqual([theirs.published, theirs.draft], [mine.published, mine.draft]);
    assert.deepEqual([theirs.status, theirs.publishedVersion], ["ACTIVE", 1]);
    assert.equal((await get("/rules/draft", test)).status, "DRAFT");
    assert.notEqual((await get("/leaderboards/top", test)).id, (await get("/leaderboards/top", live)).id);
    const sandbox = must(await api.get(`/api/v1/projects/${sandboxId}`, { token }), 200);
    for (const [name, value] of Object.entries(fields)) assert.partialDeepStrictEqual(sandbox[name], value);
    assert.deepEqual((await get("/level-curve", test)).params, curve.params);
    // Who had XP before has the level of the new curve and a place on the new board.
    assert.equal((await get("/players/ext:ada", test)).level, 5);
    await act("/events?wait=true", test, { externalUserId: "ada", eventType: "won" });
    const { data } = await get("/leaderboards/xp/entries", test);
    assert.deepEqual(pluck(data, "score"), [70]);
    assert.equal((await get("/players", live)).pagination.total, 0);
    assert.deepEqual(await synced(), nothing);
  });

  it("is made by the first synchronisation", async () => {
    tenant = await aTenant(api);
    await aRule("won", 1, tenant.key);
    const body = must(await sync(), 200);
    const test2 = await aKey(api, { token: tenant.token, projectId: tenant.projectId, environment: "test" });
    assert.equal(body.rules, 1);
    assert.equal((await get("/rules/won", test2)).status, "ACTIVE");
  });

  it("takes a changed definition as a new version, and keeps what it alone has", async () => {
    await aRule("won", 30, live);
    await aRule("mine", 5, test);
    await make("/leaderboards", board("mine"), test);
    await aRule("won", 999, test);
    assert.deepEqual(await synced(), { ...nothing, rules: 1 });
    const won = await get("/rules/won", test);
    assert.deepEqual([won.publishedVersion, won.published.actions[0].amount], [2, 30]);
    for (const own of ["/rules/mine", "/leaderboards/mine"])
      assert.equal((await get(own, test)).status, "ACTIVE");

    const { draftVersion } = await get("/rules/won", live);
    const edit = { draftVersion, actions: [{ type: "grant_xp", amount: 31 }] };
    must(await api.patch("/api/v1/rules/won", edit, { key: live }), 200);
    assert.deepEqual(await synced(), { ...nothing, rules: 1 });
    const edited = await get("/rules/won", test);
    assert.deepEqual([edited.publishedVersion, edited.draft.actions[0].amount], [2, 31]);
    await act("/rules/won/publish", live);
    await act("/rules/won/pause", live);
    assert.deepEqual(await synced(), { ...nothing, rules: 1 });
    const paused = await get("/rules/won", test);
    assert.deepEqual([paused.publishedVersion, paused.status], [3, "PAUSED"]);
    assert.equal(paused.published.actions[0].amount, 31);
    must(await api.delete("/api/v1/rules/won", { key: live }), 200);
    assert.deepEqual(await synced(), { ...nothing, rules: 1 });
    assert.equal((await get("/rules/won", test)).status, "ARCHIVED");
    assert.deepEqual(await synced(), nothing);
  });

  it("takes drafts, states and their reasons apart from versions, and runs rules in the project's order", async () => {
    for (const [key, amount] of [
      ["won-b", 1],
      ["won-a", 2],
    ] as const) {
      await make("/rules", { ...rule("won", amount), key }, live);
      await act(`/rules/${key}/publish`, live);
    }
    await make("/rules", rule("mine", 7), live);
    await aRule("mine", 5, test);
    assert.deepEqual(await synced(), { ...nothing, rules: 3 });
    const mine = await get("/rules/mine", test);
    const amounts = [mine.published.actions[0].amount, mine.draft.actions[0].amount];
    assert.deepEqual([mine.status, mine.publishedVersion, ...amounts], ["ACTIVE", 1, 5, 7]);
    const { effects } = await act("/events?wait=true", test, { externalUserId: "ada", eventType: "won" });
    const granted = (effects as { type: string; data: { amount: number } }[]).flatMap(({ type, data }) =>
      type === "player.xp_granted" ? [data.amount] : [],
    );
    assert.deepEqual(granted, [1, 2]);

    await act("/rules/won-a/pause", live);
    await api.sql`update rules set pause_reason = 'BUDGET'
      where project_id = ${tenant.projectId}::uuid and key = 'won-a'`;
    assert.deepEqual(await synced(), { ...nothing, rules: 1 });
    const { status, publishedVersion, pauseReason } = await get("/rules/won-a", test);
    assert.deepEqual([status, publishedVersion, pauseReason], ["PAUSED", 1, "BUDGET"]);
    await act("/rules/won-a/resume", live);
    assert.deepEqual(await synced(), { ...nothing, rules: 1 });
    const resumed = await get("/rules/won-a", test);
    assert.deepEqual([resumed.publishedVersion, resumed.pauseReason], [1, null]);
    const { data: versions } = await get("/rules/won-a/versions", test);
    assert.equal(versions[0].changeNote, "Copied from the project");
    assert.deepEqual(await synced(), nothing);
  });

  it("keeps the entries of a board whose scores mean the same", async () => {
    for (const key of [live, test]) await make("/leaderboards", board("top"), key);
    await make("/players", { externalUserId: "ada" }, test);
    await act("/leaderboards/top/scores", test, { playerId: "ext:ada", score: 7 });
    const change = { name: "New name", displayLimit: 10, ties: "DENSE" };
    must(await api.patch("/api/v1/leaderboards/top", change, { key: live }), 200);
    assert.deepEqual(await synced(), { ...nothing, leaderboards: 1 });
    const top = await get("/leaderboards/top", test);
    assert.deepEqual([top.name, top.displayLimit, top.ties, top.version], ["New name", 10, "DENSE", 2]);
    const scores = async () =>
      (await get("/leaderboards/top/entries", test)).data.map(({ score }: { score: number }) => score);
    assert.deepEqual(await scores(), [7]);
    await act("/leaderboards/top/pause", live);
    assert.deepEqual(await synced(), { ...nothing, leaderboards: 1 });
    assert.equal((await get("/leaderboards/top", test)).status, "PAUSED");
    await act("/leaderboards/top/resume", live);
    assert.deepEqual(await synced(), { ...nothing, leaderboards: 1 });
    assert.deepEqual(await scores(), [7]);
    assert.deepEqual(await synced(), nothing);
  });

  it("catches up with XP on a board that the project runs again", async () => {
    const xp = board("xp", { metric: { source: "XP" }, operator: undefined });
    await make("/leaderboards", xp, live);
    await synced();
    await act("/leaderboards/xp/pause", test);
    const { id } = await make("/players", { externalUserId: "ada" }, test);
    await make(`/players/${id}/xp`, { amount: 40, reason: "in the pause" }, test);
    assert.deepEqual(await synced(), { ...nothing, leaderboards: 1 });
    const { data } = await get("/leaderboards/xp/entries", test);
    assert.equal(data[0].score, 40);
  });

  it("says what it leaves as it is: boards of another meaning, and what was archived there", async () => {
    await make("/leaderboards", board("top"), live);
    await make("/leaderboards", board("top", { operator: "BEST" }), test);
    await make("/leaderboards", board("old"), live);
    await make("/leaderboards", board("old"), test);
    must(await api.delete("/api/v1/leaderboards/old", { key: test }), 200);
    await aRule("won", 1, live);
    await aRule("won", 2, test);
    must(await api.delete("/api/v1/rules/won", { key: test }), 200);
    const { skipped, ...counts } = await synced();
    assert.deepEqual({ ...counts, skipped: [] }, nothing);
    assert.deepEqual(
      skipped.map(({ type, key }: { type: string; key: string }) => `${type} ${key}`).toSorted(),
      ["leaderboard old", "leaderboard top", "rule won"],
    );
    assert.equal((await get("/leaderboards/top", test)).operator, "BEST");
  });

  it("is synchronised once for one idempotency key, and the audit log says by whom", async () => {
    await aRule("won", 1, live);
    const request = { token: tenant.token, headers: { "X-Idempotency-Key": randomUUID() } };
    const [first, second] = [
      await api.post(path("/sync"), {}, request),
      await api.post(path("/sync"), {}, request),
    ];
    assert.equal(first.body.rules, 1);
    assert.deepEqual(second.body, first.body);
    const lines = await auditOf(api, sandboxId);
    const told = lines.filter(({ action }) => action === "sandbox.synced");
    assert.deepEqual(
      told.map(({ actor, data }) => [actor, data.rules]),
      [[`user:${tenant.userId}`, 1]],
    );
    assert.ok(!(await auditOf(api, sandboxId)).some(({ action }) => action.startsWith("rule.")));
  });
});
