import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { type AdventureGame, anAdventureGame, counting } from "../support/quests/quest-game.ts";
import { jobResult } from "../support/app/processed.ts";

describe("adventures, rules and boards", () => {
  let game: AdventureGame;
  let player: string;

  before(async () => {
    game = await anAdventureGame(await startApp());
    await game.make("/currencies", { key: "gems", name: "Gems" });
    await game.quests("one", "two");
    await game.publishAdventure({
      key: "ruled",
      items: [
        { questKey: "one", order: 1, points: 10 },
        { questKey: "two", order: 2, points: 10 },
      ],
      tiers: [
        { tier: 1, points: 5, free: { xp: 5 } },
        { tier: 2, points: 20, free: { xp: 50 } },
      ],
      rewards: { xp: 500 },
    });
  });
  beforeEach(async () => {
    player = await game.newPlayer();
  });

  const draft = (key: string, action: Json, more: Json = {}) =>
    game.post("/rules", {
      key,
      name: key,
      triggers: [{ kind: "EVENT", eventTypes: [key] }],
      actions: [{ type: "update_quest", entity: "adventure", key: "ruled", ...action }],
      ...more,
    });
  const rule = async (...given: Parameters<typeof draft>) => {
    must(await draft(...given), 201);
    must(await game.post(`/rules/${given[0]}/publish`), 200);
  };
  const standing = async () => {
    const { state, points } = await game.adventureOf("ruled");
    return [state, points, await game.xp()];
  };
  const revert = async (eventId: string) => {
    const { id } = must(await game.post(`/events/${eventId}/revert`, { reason: "a test" }), 200);
    return jobResult(game.api, game.tenant, id);
  };

  it("are started, advanced, reset and completed by rules, and give each reward once", async () => {
    await rule("adv-start", { operation: "START" });
    await rule("adv-add", { operation: "ADVANCE", amount: { $ref: "event.properties.n" } });
    await rule("adv-reset", { operation: "RESET" });
    await rule("adv-done", { operation: "COMPLETE" });
    await game.send("adv-reset");
    assert.deepEqual(await standing(), ["AVAILABLE", 0, 0]);
    await game.send("adv-start");
    assert.deepEqual(await standing(), ["IN_PROGRESS", 0, 0]);
    await game.send("adv-add", { properties: { n: 6 } });
    assert.deepEqual(await standing(), ["IN_PROGRESS", 6, 5]);
    await game.send("adv-add", { properties: { n: -3 } });
    assert.deepEqual(await standing(), ["IN_PROGRESS", 6, 5]);
    await game.send("adv-reset");
    assert.deepEqual(await standing(), ["AVAILABLE", 0, 5]);
    await game.send("adv-add", { properties: { n: 7 } });
    assert.deepEqual(await standing(), ["IN_PROGRESS", 7, 5]);
    await game.send("adv-done");
    assert.deepEqual(await standing(), ["CLAIMED", 7, 505]);
    await game.send("adv-done");
    await game.send("adv-reset");
    assert.deepEqual(await standing(), ["CLAIMED", 7, 505]);
    assert.equal((await game.adventureOf("ruled")).percent, 100);
  });

  it("are not changed by rules that ask for what they do not have", async () => {
    const refused = async (key: string, action: Json): Promise<void> => {
      const made = await draft(key, action);
      const answer = made.status === 201 ? await game.post(`/rules/${key}/publish`) : made;
      assert.equal(answer.status, 400, `${key}: ${JSON.stringify(answer.body)}`);
    };
    await refused("bad-fail", { operation: "FAIL" });
    await refused("bad-step", { operation: "ADVANCE", stepKey: "a" });
    await refused("bad-amount", { operation: "START", amount: 1 });
    await refused("bad-key", { operation: "START", key: "nowhere" });
  });

  it("have boards of their points and of quests completed, which follow reverts", async () => {
    await game.make("/leaderboards", {
      key: "points",
      name: "Points",
      metric: { source: "ADVENTURE_POINTS", adventureKey: "ruled" },
    });
    await game.make("/leaderboards", {
      key: "quests",
      name: "Quests",
      metric: { source: "QUESTS_COMPLETED" },
    });
    await game.make("/leaderboards", {
      key: "twos",
      name: "Twos",
      metric: { source: "QUESTS_COMPLETED", questKey: "two" },
    });
    for (const [metric, code] of [
      [{ source: "ADVENTURE_POINTS", adventureKey: "nowhere" }, "UNKNOWN_REFERENCE"],
      [{ source: "ADVENTURE_POINTS" }, undefined],
      [{ source: "QUESTS_COMPLETED", questKey: "nowhere" }, "UNKNOWN_REFERENCE"],
    ] as const)
      assertError(await game.post("/leaderboards", { key: "wrong", name: "Wrong", metric }), 400, code);
    const first = player;
    const { eventId } = await game.send("one.done");
    await game.send("two.done");
    const second = await game.newPlayer();
    await game.send("one.done");
    const ranks = async (key: string) =>
      (await game.get(`/leaderboards/${key}/entries`)).data.map(
        ({ playerId, rank, score }: { playerId: string; rank: number; score: number }) => [
          playerId === first ? "first" : "second",
          rank,
          score,
        ],
      );
    const holds = (key: string, expected: unknown) =>
      eventuallyHolds(async () => assert.deepEqual(await ranks(key), expected));
    await holds("points", [
      ["first", 1, 20],
      ["second", 2, 10],
    ]);
    await holds("quests", [
      ["first", 1, 2],
      ["second", 2, 1],
    ]);
    await holds("twos", [["first", 1, 1]]);
    await revert(eventId);
    await holds("points", [
      ["first", 1, 10],
      ["second", 2, 10],
    ]);
    await holds("twos", [["first", 1, 1]]);
    must(await game.post(`/players/${second}/merge`, { sourcePlayerId: first }), 200);
    await holds("points", [["second", 1, 10]]);
    await holds("quests", [["second", 1, 2]]);
    await holds("twos", [["second", 1, 1]]);
  });

  it("lock a quest whose places are taken for conditions as for whoever reads it", async () => {
    await game.publish({ key: "rare", steps: [counting("a", "rare.a", 1)], maxParticipants: 1 });
    await rule(
      "rare-open",
      {},
      {
        triggers: [{ kind: "EVENT", eventTypes: ["rare.ask"] }],
        conditions: {
          all: [{ type: "progress_state", entity: "quest", key: "rare", states: ["AVAILABLE"] }],
        },
        actions: [{ type: "grant_xp", amount: 3 }],
      },
    );
    await game.send("rare.ask");
    assert.equal(await game.xp(), 3);
    await game.send("rare.a");
    await game.newPlayer();
    await game.send("rare.ask");
    assert.deepEqual([(await game.questOf("rare")).state, await game.xp()], ["LOCKED", 0]);
  });

  it("are heard by rules, as quests are, when they get further", async () => {
    await game.quests("told");
    const tiers = [{ tier: 1, points: 5, free: { xp: 1 } }];
    await game.publishAdventure({ key: "heard", items: [{ questKey: "told", order: 1, points: 5 }], tiers });
    const pays = { "quest.completed": 20, "adventure.tier_reached": 300, "adventure.completed": 4_000 };
    for (const [type, amount] of Object.entries(pays))
      await rule(
        type.replaceAll(/\W/g, "-"),
        {},
        { triggers: [{ kind: "EVENT", eventTypes: [type] }], actions: [{ type: "grant_xp", amount }] },
      );
    await game.send("told.done");
    assert.equal(await game.xp(), 4_321);
  });
});
