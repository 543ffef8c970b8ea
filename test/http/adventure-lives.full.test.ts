import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { anAdventureGame, counting } from "../support/quests/quest-game.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

describe("adventures and the rest of a game", () => {
  const api = madeOnce(startApp);
  const game = madeOnce(() => anAdventureGame(api));
  let player: string;

  before(async () => {
    await game.quests("one", "two");
    await game.publishAdventure({
      key: "season",
      items: [
        { questKey: "one", order: 1, points: 10 },
        { questKey: "two", order: 2, points: 10, unlock: { mode: "AFTER_PREVIOUS" } },
      ],
      tiers: [
        { tier: 1, points: 10, free: { xp: 5 }, premium: { xp: 50 } },
        { tier: 2, points: 20, free: { xp: 500 } },
      ],
    });
  });
  beforeEach(async () => {
    player = await game.newPlayer();
  });

  it("open quests, and trigger rules by where players stand in them", async () => {
    const stands = (states: string[], more: Json = {}) => ({
      all: [{ type: "progress_state", entity: "adventure", key: "season", states, ...more }],
    });
    await game.publish({
      key: "veterans",
      prerequisites: stands(["CLAIMED"]),
      steps: [counting("do", "veterans.done", 1)],
    });
    await game.make("/rules", {
      key: "half-way",
      name: "Half way",
      triggers: [{ kind: "EVENT", eventTypes: ["adventure.tier_reached"] }],
      conditions: stands(["IN_PROGRESS"], { minPercent: 50 }),
      actions: [{ type: "grant_xp", amount: { ref: "event.properties.tier" } }],
    });
    must(await game.post("/rules/half-way/publish"), 200);
    await game.send("one.done");
    assert.equal(await game.xp(), 5 + 1);
    assert.equal((await game.questOf("veterans")).state, "LOCKED");
    await game.send("two.done");
    assert.equal((await game.questOf("veterans")).state, "AVAILABLE");
    must(await game.post("/rules/half-way/pause"), 200);
  });

  it("open the quests of states that wait for them in the same commit", async () => {
    await game.publish({
      key: "state-1",
      steps: [counting("do", "state-1.done", 1)],
    });
    await game.publish({
      key: "state-2",
      steps: [
        {
          key: "is",
          name: "Is there",
          kind: "STATE",
          condition: { all: [{ type: "player_property", field: "xp", op: "gte", value: 0 }] },
        },
      ],
      rewards: { xp: 9 },
    });
    await game.publishAdventure({
      key: "states",
      items: [
        { questKey: "state-1", order: 1 },
        { questKey: "state-2", order: 2, unlock: { mode: "AFTER_PREVIOUS" } },
      ],
      rewards: { xp: 90 },
    });
    assert.equal(await game.xp(), 0);
    await game.send("state-1.done");
    assert.equal((await game.adventureOf("states")).state, "CLAIMED");
    assert.equal(await game.xp(), 99);
  });

  it("give premium as a reward", async () => {
    const bundle = { premium: { adventureKey: "season" } };
    await game.make("/rewards", { key: "gift", name: "A gift", kind: "BUNDLE", bundle });
    await game.make("/rules", {
      key: "gift",
      name: "A gift",
      triggers: [{ kind: "EVENT", eventTypes: ["gift"] }],
      actions: [{ type: "grant_reward", rewardKey: "gift" }],
    });
    must(await game.post("/rules/gift/publish"), 200);
    await game.send("one.done");
    assert.equal(await game.xp(), 5);
    await game.send("gift");
    assert.equal((await game.adventureOf("season")).premium, true);
    assert.equal(await game.xp(), 55);
    await game.send("gift");
    assert.equal(await game.xp(), 55);
  });

  it("give what is limited to all players together, in whatever way it is reached", async () => {
    await game.make("/rewards", {
      key: "prize",
      name: "Prize",
      kind: "PRIZE",
      fulfilment: "EXTERNAL",
      stock: 9,
    });
    const prize = { rewards: [{ rewardKey: "prize" }] };
    await game.quests("li-1", "li-2");
    await game.publishAdventure({
      key: "limited",
      items: [
        { questKey: "li-1", order: 1, points: 10 },
        { questKey: "li-2", order: 2, points: 10 },
      ],
      pointsFrom: [{ metric: { eventTypes: ["li.walked"], aggregate: "count" }, pointsPerUnit: 10 }],
      tiers: [{ tier: 1, points: 10, free: prize, premium: prize }],
    });
    const bundle = { premium: { adventureKey: "limited" } };
    await game.make("/rewards", { key: "pass", name: "Pass", kind: "BUNDLE", bundle });
    await game.make("/rules", {
      key: "pass",
      name: "Pass",
      triggers: [{ kind: "EVENT", eventTypes: ["li.gift"] }],
      actions: [{ type: "grant_reward", rewardKey: "pass" }],
    });
    must(await game.post("/rules/pass/publish"), 200);
    await game.send("li-1.done");
    must(await game.onAdventure("limited", "premium", { grant: true }), 200);
    await game.newPlayer();
    await game.send("li.walked");
    await game.send("li.gift");
    player = await game.newPlayer();
    must(await game.post(`/players/${player}/quests/li-2/complete`), 200);
    const { tiers } = must(await game.onAdventure("limited", "premium", { grant: true }), 200);
    assert.deepEqual([tiers[0].claimed, tiers[0].premiumClaimed], [true, true]);
    assert.equal((await game.get("/rewards/prize/stock")).given, 6);
  });

  it("are merged: who of both got the rewards of a tier does not get them again", async () => {
    const target = player;
    await game.send("one.done");
    const source = await game.newPlayer();
    await game.send("one.done");
    must(await game.onAdventure("season", "premium", { grant: true }), 200);
    must(await game.post(`/players/${target}/merge`, { sourcePlayerId: source }), 200);
    const merged = await game.get(`/players/${target}?include=adventures`);
    assert.equal(merged.xp, 5 + 55);
    const season = merged.adventures.find((one: Json) => one["adventureKey"] === "season");
    assert.deepEqual([season.points, season.premium, season.tiers[0].premiumClaimed], [10, true, true]);
    await game.send("two.done");
    assert.equal((await game.get(`/players/${target}`)).xp, 60 + 500);
  });

  it("are imported with quests that give their premium, in one document", async () => {
    const patch = (body: object) => api.patch("/api/v1/quests/one", body, { key: game.tenant.key });
    const { draftVersion } = await game.get("/quests/one");
    must(await patch({ draftVersion, rewards: { premium: { adventureKey: "season" } } }), 200);
    must(await game.post("/quests/one/publish"), 200);
    const document = await game.get("/config/export");
    const { token, projectId, key } = await aTenant(api);
    const send = (given: Json) =>
      api.post(
        "/api/v1/config/import",
        { document: given },
        { token, headers: { "X-Project-ID": projectId } },
      );
    const without = { ...document, adventures: [] };
    assertError(await send(without), 400, "UNKNOWN_REFERENCE");
    assert.equal(must(await send(document), 200).applied, true);
    for (const path of ["/adventures/season", "/quests/one"])
      assert.equal(must(await api.get(`/api/v1${path}`, { key }), 200).status, "ACTIVE");
    assert.equal(must(await send(document), 200).changes.length, 0);
  });

  it("name their quests, and quests their adventures", async () => {
    const { data } = await game.get("/quests?adventureKey=season&sort=key");
    assert.deepEqual(pluck(data, "key"), ["one", "two"]);
    const found = await game.get("/adventures?questKey=two&status=ACTIVE");
    assert.deepEqual(pluck(found.data, "key"), ["season"]);
    assert.equal((await game.get("/adventures?questKey=nobody")).pagination.total, 0);
  });

  it("tell how far players have come", async () => {
    await game.quests("st-1", "st-2");
    await game.publishAdventure({
      key: "told",
      items: [
        { questKey: "st-1", order: 1, points: 10 },
        { questKey: "st-2", order: 2 },
      ],
      tiers: [{ tier: 1, points: 10, free: { xp: 1 } }],
    });
    await game.send("st-1.done");
    await game.newPlayer();
    await game.send("st-1.done");
    await game.send("st-2.done");
    const stats = await game.get("/adventures/told/stats");
    assert.deepEqual(stats, {
      adventureKey: "told",
      players: 2,
      states: { IN_PROGRESS: 1, CLAIMED: 1 },
      premium: 0,
      averagePoints: 10,
      items: [
        { questKey: "st-1", done: 2 },
        { questKey: "st-2", done: 1 },
      ],
      tiers: [{ tier: 1, reached: 2 }],
    });
  });
});
