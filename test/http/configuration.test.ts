import assert from "node:assert/strict";
import { aKey, type Answer, aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { eventually } from "../support/eventually.ts";
import { aMember } from "../support/app/member.ts";
import { aSeason, counting } from "../support/quests/quest-game.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { definitionDocument } from "../support/rules/plan.ts";
import { pluck } from "../support/pluck.ts";

const rule = {
  key: "welcome",
  name: "Welcome",
  triggers: [{ kind: "EVENT", eventTypes: ["signed_up"] }],
  actions: [{ type: "grant_xp", amount: 5 }],
};
const board = { key: "top", name: "Top", metric: { source: "XP" } };

type Effect = { type: string; data: { questKey?: string } };

describe("a project's configuration", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const exported = async (key = tenant.key) => {
    const answer = await api.get("/api/v1/config/export", { key });
    assert.equal(answer.status, 200);
    return answer.body;
  };
  const post = (path: string, body: unknown, key = tenant.key): Promise<Answer> =>
    api.post(`/api/v1${path}`, body, { key });
  const imported = (document: unknown, more: object = {}, key = tenant.key): Promise<Answer> =>
    post("/config/import", { document, ...more }, key);

  /** Something of each section. */
  const aGame = {
    format: "laurel/1",
    timezone: "Europe/Berlin",
    settings: { maxBoostFactor: 4, lives: { enabled: true, max: 7 } },
    levelCurve: { type: "LINEAR", params: { base: 10, maxLevel: 20 } },
    currencies: [{ key: "coins", name: "Coins", maxBalance: 500 }],
    levels: [{ key: "5", name: "Knight", rewards: { currencies: { coins: 3 } } }],
    leaderboards: [{ status: "PAUSED", leaderboard: board }],
    rules: [
      { status: "ACTIVE", rule: { ...rule, schedule: { activeFrom: "2026-01-01T00:00:00Z" } } },
      { status: "DRAFT", rule: { ...rule, key: "later" } },
    ],
  };

  it("may name its things in any order, but none that is not there", async () => {
    const box = (key: string, bundle: object) => ({ key, name: key, kind: "BUNDLE", bundle });
    const rewards = [
      box("a", { rewards: [{ rewardKey: "z" }], badges: [{ badgeKey: "b" }] }),
      box("z", { xp: 1 }),
    ];
    const badges = [{ key: "b", name: "B" }];
    const missing = await imported({ format: "laurel/1", rewards });
    assertError(missing, 400, "UNKNOWN_REFERENCE");
    assert.equal(missing.body.error.details[0].field, "rewards.a.bundle.badges.0.badgeKey");
    assert.deepEqual((await exported()).rewards, []);
    assert.equal((await imported({ format: "laurel/1", rewards, badges })).status, 200);
    assert.deepEqual(pluck((await exported()).rewards, "key"), ["a", "z"]);
  });

  it("moves what is paused or has ended as that, into sandboxes too, and nothing is kept running by it", async () => {
    const steps = [counting("a", "done", 1)];
    const make = async (key: string, ...moves: readonly string[]) => {
      assert.equal((await post("/quests", { key, name: key, steps, rewards: { xp: 1 } })).status, 201);
      for (const move of ["publish", ...moves])
        assert.equal((await post(`/quests/${key}/${move}`, {})).status, 200);
    };
    await make("over", "end");
    await make("runs");
    await make("step");
    await make("waits", "pause");
    const season = { key: "season", name: "S", ...aSeason(), items: [{ questKey: "step", order: 1 }] };
    assert.equal((await post("/adventures", season)).status, 201);
    for (const move of ["publish", "pause"])
      assert.equal((await post(`/adventures/season/${move}`, {})).status, 200);
    const document = await exported();
    const statuses = ({ quests, adventures }: Answer["body"]) =>
      [...quests, ...adventures].map(({ key, status }) => `${key} ${status}`);
    const asMade = ["over ENDED", "runs ACTIVE", "step ACTIVE", "waits PAUSED", "season PAUSED"];
    assert.deepEqual(statuses(document), asMade);

    const other = (await aTenant(api)).key;
    assert.equal((await imported(document, {}, other)).body.applied, true);
    const path = `/api/v1/projects/${tenant.projectId}/sandbox/sync`;
    const synced = await api.post(path, {}, { token: tenant.token });
    assert.deepEqual([synced.body.definitions.quests, synced.body.definitions.adventures], [4, 1]);
    const sandbox = await aKey(api, { ...tenant, environment: "test" });
    for (const key of [other, sandbox]) {
      assert.deepEqual(await exported(key), document);
      const sent = await post("/events?wait=true", { externalUserId: "ada", eventType: "done" }, key);
      const completed = await eventually(async (): Promise<Effect[] | false> => {
        const { body } = await api.get(`/api/v1/events/${sent.body.eventId}`, { key });
        return body.status === "PROCESSED" && body.effects;
      });
      assert.deepEqual(
        completed.filter(({ type }) => type === "quest.completed").map(({ data }) => data.questKey),
        ["runs"],
      );
    }

    const quests = document.quests.map(({ status: _status, ...quest }: Answer["body"]) => quest);
    assert.deepEqual(
      (await imported({ format: "laurel/1", quests }, { prune: true }, other)).body.changes,
      [],
    );
    const turned = document.quests.map((quest: object, i: number) => {
      return { ...quest, status: ["ACTIVE", "PAUSED", "ACTIVE", "ACTIVE"][i] };
    });
    const { changes } = (await imported({ format: "laurel/1", quests: turned }, {}, other)).body;
    assert.deepEqual(
      pluck(changes, "key", "fields"),
      ["over", "runs", "waits"].map((key) => [key, ["status"]]),
    );
    assert.deepEqual(statuses(await exported(other)).slice(0, 4), [
      "over ACTIVE",
      "runs PAUSED",
      "step ACTIVE",
      "waits ACTIVE",
    ]);
    const ended = { format: "laurel/1", quests: [{ ...quests[2], status: "ENDED" }] };
    assertError(await imported(ended, {}, other), 409, "IN_USE");
    assert.equal((await api.post(path, {}, { token: tenant.token })).body.definitions.quests, 0);
  });

  it("gives a board without a time zone the project's, which it keeps", async () => {
    const weekly = { ...board, period: { kind: "WEEKLY" } };
    const document = { format: "laurel/1", leaderboards: [{ leaderboard: weekly }] };
    const zones = async () =>
      (await exported()).leaderboards.map(({ leaderboard: { key, period } }: Answer["body"]) => [
        key,
        period.timezone,
      ]);
    await imported({ ...document, timezone: "Europe/Berlin" });
    assert.deepEqual(await zones(), [["top", "Europe/Berlin"]]);
    await imported({ format: "laurel/1", timezone: "Asia/Tokyo" });
    assert.deepEqual((await imported(document)).body.changes, []);
    const renamed = { leaderboard: { ...weekly, name: "Best" } };
    const another = { leaderboard: { ...weekly, key: "later" } };
    const changed = await imported({ ...document, leaderboards: [renamed, another] });
    assert.deepEqual(changed.body.changes, [
      { section: "leaderboards", key: "top", action: "UPDATE", fields: ["name"] },
      { section: "leaderboards", key: "later", action: "CREATE", fields: [] },
    ]);
    assert.deepEqual(await zones(), [
      ["later", "Asia/Tokyo"],
      ["top", "Europe/Berlin"],
    ]);
    const moved = { leaderboard: { ...weekly, period: { kind: "WEEKLY", timezone: "UTC" } } };
    assertError(await imported({ ...document, leaderboards: [moved] }), 409, "LEADERBOARD_FIXED");
  });

  it("works at once: a rule that was imported as ACTIVE gives XP", async () => {
    await imported(aGame);
    const sent = await post("/events?wait=true", { externalUserId: "u", eventType: "signed_up" });
    assert.deepEqual(
      sent.body.effects
        .map(({ type }: { type: string }) => type)
        .filter((t: string) => t.endsWith("granted")),
      ["player.xp_granted"],
    );
  });

  it("archives what a section does not name only when it prunes, and takes fields away", async () => {
    await imported(aGame);
    const document = { format: "laurel/1", currencies: [{ key: "gems", name: "Gems" }], rules: [] };
    await imported(document);
    assert.deepEqual(pluck((await exported()).currencies, "key"), ["coins", "gems"]);
    await imported({ ...document, currencies: [{ key: "coins", name: "Coins" }] }, { prune: true });
    const now = await exported();
    assert.deepEqual([now.currencies.length, now.currencies[0].maxBalance, now.rules], [1, undefined, []]);
  });

  /** Archives all of `aGame` that can be archived. */
  const emptied = async () => {
    const nothing = { currencies: [], levels: [], leaderboards: [], rules: [] };
    assert.equal((await imported({ format: "laurel/1", ...nothing }, { prune: true })).status, 200);
    const { rules, currencies } = await exported();
    assert.deepEqual([rules, currencies], [[], []]);
  };

  it("drops unpublished edits of a quest that it changes, which are of another one", async () => {
    const { key } = tenant;
    assert.equal((await post("/quests", definitionDocument("quest", { key: "walk" }))).status, 201);
    assert.equal((await post("/quests/walk/publish", {})).status, 200);
    const document = await exported();
    const edit = { name: "Edited", draftVersion: 1 };
    assert.equal((await api.patch("/api/v1/quests/walk", edit, { key })).status, 200);
    const quests = document.quests.map((quest: object) => ({ ...quest, name: "New" }));
    assert.equal((await imported({ ...document, quests })).status, 200);
    const { body } = await post("/quests/walk/publish", {});
    assert.deepEqual([body.name, body.draftVersion], ["New", 3]);
  });

  it("restores what was archived, as a dry run promises, with what players hold of it", async () => {
    await imported(aGame);
    const before = await exported();
    const { id } = (await api.get("/api/v1/rules/welcome", { key: tenant.key })).body;
    const player = (await post("/players", { externalUserId: "ada", displayName: "Ada" })).body;
    await post(`/players/${player.id}/balances/coins/grant`, { amount: 5 });
    await emptied();
    const promised = await imported(before, { dryRun: true });
    const restored = await imported(before);
    assert.deepEqual([restored.status, restored.body.changes], [200, promised.body.changes]);
    assert.deepEqual(await exported(), before);
    const again = (await api.get("/api/v1/rules/welcome", { key: tenant.key })).body;
    assert.deepEqual([again.id, again.status, again.publishedVersion], [id, "ACTIVE", 2]);
    const { body } = await api.get(`/api/v1/players/${player.id}/balances`, { key: tenant.key });
    assert.equal(body.data[0].balance, 5);
    const sent = await post("/events?wait=true", { externalUserId: "ada", eventType: "signed_up" });
    const effects: { type: string }[] = sent.body.effects;
    assert.ok(effects.some(({ type }) => type === "player.xp_granted"));
  });

  it("restores a board with all scores of the players, and with the changes of the document", async () => {
    const player = (await post("/players", { externalUserId: "bo", displayName: "Bo" })).body;
    await imported({ format: "laurel/1", leaderboards: [{ leaderboard: board }] });
    await emptied();
    await post(`/players/${player.id}/xp`, { amount: 7, reason: "gift" });
    const renamed = { ...board, name: "Best" };
    assert.equal(
      (await imported({ format: "laurel/1", leaderboards: [{ leaderboard: renamed }] })).status,
      200,
    );
    await eventually(async () => {
      const { body } = await api.get("/api/v1/leaderboards/top/entries", { key: tenant.key });
      return body.data[0]?.score === 7;
    });
    assert.equal((await exported()).leaderboards[0].leaderboard.name, "Best");
  });

  it("refuses to restore something as what it never was", async () => {
    const reward = { key: "gift", name: "Gift", kind: "BUNDLE", bundle: { xp: 1 } };
    const given = { format: "laurel/1", rewards: [reward], leaderboards: [{ leaderboard: board }] };
    assert.equal((await imported(given)).status, 200);
    await imported({ format: "laurel/1", rewards: [], leaderboards: [] }, { prune: true });
    const other = { ...board, metric: { source: "LEVEL" } };
    const asOther = await imported({ format: "laurel/1", leaderboards: [{ leaderboard: other }] });
    assertError(asOther, 409, "LEADERBOARD_FIXED");
    const custom = { key: "gift", name: "Gift", kind: "PRIZE", fulfilment: "EXTERNAL" };
    const asCustom = await imported({ format: "laurel/1", rewards: [custom] });
    assert.equal(asCustom.body.error.details[0].field, "rewards.gift.kind");
  });

  it("is imported wholly or not at all", async () => {
    await imported(aGame);
    const before = await exported();
    const fixed = { ...board, metric: { source: "CUSTOM" }, operator: "SUM" };
    const refused = await imported({
      ...aGame,
      currencies: [{ key: "gems", name: "Gems" }],
      leaderboards: [{ leaderboard: fixed }],
    });
    assertError(refused, 409, "LEADERBOARD_FIXED");
    assert.deepEqual(await exported(), before);
  });

  it("refuses documents that are not one, with the place", async () => {
    const bad: [unknown, RegExp][] = [
      [{ format: "other/1" }, /document\.format/],
      [{ format: "laurel/1", nonsense: [] }, /nonsense|document/],
      [{ format: "laurel/1", currencies: [{ key: "NO", name: "x" }] }, /currencies\.0\.key/],
      [{ format: "laurel/1", currencies: [1, 2].map(() => ({ key: "a", name: "A" })) }, /currencies\.1\.key/],
      [{ format: "laurel/1", rules: [{ rule: { ...rule, actions: [{ type: "fly" }] } }] }, /rules\.0\.rule/],
    ];
    for (const [document, place] of bad) {
      const answer = await imported(document);
      assertError(answer, 400);
      assert.match(JSON.stringify(answer.body.error.details), place);
    }
    assertError(await post("/config/diff", {}), 400);
  });

  it("has settings of its own, of which a change names only what is to change", async () => {
    const path = "/api/v1/project-settings";
    const patch = (body: unknown) => api.request("PATCH", path, { key: tenant.key, body });
    const changed = await patch({ lives: { max: 9 }, xpDailySoftCap: { xp: 100, factorAbove: 0.5 } });
    assert.deepEqual([changed.status, changed.body.lives.max, changed.body.lives.start], [200, 9, 5]);
    const read = await api.get(path, { key: tenant.key });
    assert.deepEqual(read.body, changed.body);
    assertError(await patch({ lives: { max: 0 } }), 400);
    assertError(await patch({ colour: "red" }), 400);
  });

  it("changes nothing by an import that its caller could not change otherwise", async () => {
    const designer = await aMember(api, tenant.tenantId, "DESIGNER");
    const options = { token: designer.token, headers: { "X-Project-ID": tenant.projectId } };
    const byDesigner = (document: unknown) => api.post("/api/v1/config/import", { document }, options);
    const settings = { format: "laurel/1", settings: { tracesDays: 3 } };
    assertError(await byDesigner(settings), 403, "INSUFFICIENT_ROLE");
    assert.equal((await byDesigner({ format: "laurel/1", rules: aGame.rules })).status, 200);
    const key = await aKey(api, { ...tenant, scopes: ["config:manage"] });
    const later = { ...rule, key: "another" };
    const rules = { format: "laurel/1", rules: [{ status: "DRAFT", rule: later }] };
    assertError(await imported(rules, {}, key), 403, "INSUFFICIENT_SCOPE");
    assert.equal((await imported(settings, {}, key)).status, 200);
  });

  it("keeps what a rule that runs names: it cannot be archived before the rule is paused", async () => {
    await imported(aGame);
    const paying = { ...rule, actions: [{ type: "adjust_currency", currencyKey: "coins", amount: 1 }] };
    await imported({ format: "laurel/1", rules: [{ status: "ACTIVE", rule: { ...paying, key: "pay" } }] });
    const archive = () => api.request("DELETE", "/api/v1/currencies/coins", { key: tenant.key });
    assertError(await archive(), 409, "IN_USE");
    await post("/rules/pay/pause", {});
    assert.equal((await archive()).status, 200);
  });
});
