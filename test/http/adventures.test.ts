import assert from "node:assert/strict";
import { settleAdventures } from "../../src/jobs/jobs.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { anAdventureGame, counting } from "../support/quests/quest-game.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const DAY_MS = 86_400_000;
const inDays = (days: number): string => new Date(Date.now() + days * DAY_MS).toISOString();
const xpPoints = { eventTypes: ["player.xp_granted"], aggregate: "sum", property: "amount" };

describe("adventures of players", () => {
  const game = madeOnce(async () => anAdventureGame(await startApp()));
  let player: string;

  before(async () => {
    await game.make("/currencies", { key: "gems", name: "Gems" });
  });
  beforeEach(async () => {
    player = await game.newPlayer();
  });

  const itemsOf = async (key: string): Promise<unknown[][]> =>
    (await game.adventureOf(key)).items.map((one: Json) => [one["questKey"], one["unlocked"], one["state"]]);

  it("start with the first progress, unlock quests one by one, and complete with their rewards", async () => {
    await game.quests("st-1", "st-2", "st-3");
    await game.publishAdventure({
      key: "story",
      season: "s1",
      items: [
        { questKey: "st-1", order: 1, points: 10 },
        { questKey: "st-2", order: 2, points: 20, unlock: { mode: "AFTER_PREVIOUS" } },
        { questKey: "st-3", order: 3, points: 5, optional: true, unlock: { mode: "POINTS", points: 30 } },
      ],
      rewards: { xp: 100 },
    });
    const before = await game.adventureOf("story");
    assert.deepEqual([before.state, before.id, before.questsRequired], ["AVAILABLE", null, 2]);
    assert.deepEqual(await itemsOf("story"), [
      ["st-1", true, "AVAILABLE"],
      ["st-2", false, "LOCKED"],
      ["st-3", false, "LOCKED"],
    ]);
    await game.send("st-2.done");
    assert.equal((await game.questOf("st-2")).state, "LOCKED");
    assert.equal((await game.questOf("st-2")).lockedBy[0].path, "adventures");
    const { effects } = await game.send("st-1.done");
    const told = effects.map(({ type }) => type).filter((type) => /^adventure\.(?!updated)/.test(type));
    assert.deepEqual(told, ["adventure.started", "adventure.quest_unlocked", "adventure.quest_unlocked"]);
    const half = await game.adventureOf("story");
    assert.deepEqual([half.state, half.points, half.percent], ["IN_PROGRESS", 10, 50]);
    await game.send("st-2.done");
    const done = await game.adventureOf("story");
    assert.deepEqual([done.state, done.points, done.percent, done.questsCompleted], ["CLAIMED", 30, 100, 2]);
    assert.equal(await game.xp(), 100);
    await game.send("st-3.done");
    assert.equal((await game.adventureOf("story")).points, 35, "points are gained until the end");
    assert.equal(await game.xp(), 100);
  });

  it("unlock by quests, by date and by days since the player joined", async () => {
    await game.quests("un-a", "un-b", "un-c", "un-d", "un-e");
    await game.publishAdventure({
      key: "unlocks",
      items: [
        { questKey: "un-a", order: 1 },
        { questKey: "un-b", order: 2, unlock: { mode: "AFTER_QUESTS", questKeys: ["un-a"] } },
        { questKey: "un-c", order: 3, unlock: { mode: "AT_DATE", at: inDays(-1) } },
        { questKey: "un-d", order: 4, unlock: { mode: "AT_DATE", at: inDays(10) } },
        { questKey: "un-e", order: 5, unlock: { mode: "DAY_OFFSET", days: 2 } },
      ],
    });
    await game.send("un-a.done");
    const { items, startedAt } = await game.adventureOf("unlocks");
    const unlocked = items.map((one: Json) => one["unlocked"]);
    assert.deepEqual(unlocked, [true, true, true, false, false]);
    const midnight = Date.parse(startedAt.slice(0, 10)) + 2 * DAY_MS;
    assert.equal(items[4].unlocksAt, new Date(midnight).toISOString());
    assert.equal((await game.questOf("un-e")).state, "LOCKED");
    // The clock of a job that is due, as of two days later.
    await game.api
      .sql`update player_adventures set started_at = started_at - interval '3 days', due_at = now()
      where player_id = ${player}`;
    await settleAdventures.run(game.api.app, "*");
    assert.equal((await game.adventureOf("unlocks")).items[4].unlocked, true);
    assert.equal((await game.questOf("un-e")).state, "AVAILABLE");
    const rows = await game.api.sql<{ n: number }>`
      select count(*)::int as n from outbox where player_id = ${player}
      and type = 'adventure.quest_unlocked' and data ->> 'questKey' = 'un-e'`;
    assert.equal(rows[0]!.n, 1);
  });

  it("give points for events, reach tiers, and open premium ones when premium is bought later", async () => {
    await game.quests("pa-1");
    await game.publishAdventure({
      key: "pass",
      items: [{ questKey: "pa-1", order: 1, points: 5 }],
      pointsFrom: [
        { metric: xpPoints, pointsPerUnit: 0.1 },
        { metric: { eventTypes: ["pass.walked"], aggregate: "count" }, pointsPerUnit: 1 },
      ],
      tiers: [
        { tier: 1, points: 10, free: { currencies: { gems: 1 } }, premium: { currencies: { gems: 100 } } },
        { tier: 2, points: 20, premium: { currencies: { gems: 1_000 } } },
        { tier: 3, points: 500, free: { currencies: { gems: 10_000 } } },
      ],
      premiumPrice: { currencyKey: "gems", amount: 50 },
    });
    const gems = async () => (await game.get(`/players/${player}`)).currencies.gems ?? 0;
    must(await game.post(`/players/${player}/xp`, { amount: 95 }), 201);
    assert.equal((await game.adventureOf("pass")).points, 9);
    await game.send("pass.walked");
    assert.equal((await game.adventureOf("pass")).points, 10, "9.5 and 1 are 10.5");
    assert.equal(await gems(), 1);
    must(await game.post(`/players/${player}/xp`, { amount: 100 }), 201);
    assertError(await game.onAdventure("pass", "premium"), 409, "INSUFFICIENT_FUNDS");
    must(await game.post(`/players/${player}/balances/gems/grant`, { amount: 60 }), 201);
    const bought = must(await game.onAdventure("pass", "premium"), 200);
    assert.deepEqual([bought.premium, await gems()], [true, 1 + 60 - 50 + 1_100]);
    assert.deepEqual(pluck(bought.tiers, "reached", "claimed", "premiumClaimed"), [
      [true, true, true],
      [true, false, true],
      [false, false, false],
    ]);
    assertError(await game.onAdventure("pass", "premium"), 409, "ALREADY_PREMIUM");
    assert.equal(must(await game.onAdventure("pass", "premium", { grant: true }), 200).premium, true);
    assert.equal(await gems(), 1_111);
  });

  it("are claimed by hand, each tier and the whole once, however many claims come at once", async () => {
    await game.quests("cl-1");
    await game.publishAdventure({
      key: "claims",
      items: [{ questKey: "cl-1", order: 1, points: 10 }],
      claim: "MANUAL",
      tiers: [
        { tier: 1, points: 10, free: { xp: 7 }, premium: { xp: 70 } },
        { tier: 2, points: 10_000, free: { xp: 700 } },
      ],
      pointsFrom: [{ metric: { eventTypes: ["claims.more"], aggregate: "count" }, pointsPerUnit: 1 }],
      rewards: { xp: 1_000 },
    });
    assertError(await game.onAdventure("claims", "tiers/1/claim"), 409, "INVALID_STATE");
    await game.send("cl-1.done");
    assert.equal(await game.xp(), 0);
    const claims = await Promise.all(
      Array.from({ length: 30 }, () => game.onAdventure("claims", "tiers/1/claim", { track: "FREE" })),
    );
    assert.equal(claims.filter(({ status }) => status === 200).length, 1);
    for (const answer of claims.filter(({ status }) => status !== 200))
      assertError(answer, 409, "ALREADY_CLAIMED");
    assert.equal(await game.xp(), 7);
    assertError(
      await game.onAdventure("claims", "tiers/1/claim", { track: "PREMIUM" }),
      409,
      "PREMIUM_REQUIRED",
    );
    assertError(await game.onAdventure("claims", "tiers/2/claim"), 409, "INVALID_STATE");
    assertError(await game.onAdventure("claims", "tiers/9/claim"), 404);
    assertError(await game.onAdventure("claims", "tiers/0/claim"), 400);
    assertError(await game.onAdventure("claims", "premium"), 409, "NOT_FOR_SALE");
    must(await game.onAdventure("claims", "premium", { grant: true }), 200);
    assert.equal(await game.xp(), 7, "nothing is granted that must be claimed");
    must(await game.onAdventure("claims", "tiers/1/claim", { track: "PREMIUM" }), 200);
    const all = await Promise.all(Array.from({ length: 30 }, () => game.onAdventure("claims", "claim")));
    assert.equal(all.filter(({ status }) => status === 200).length, 1);
    assert.equal(await game.xp(), 1_077);
    assert.equal((await game.adventureOf("claims")).state, "CLAIMED");
  });

  it("give the points of a quest that repeats each time, and complete by count or by points", async () => {
    await game.publish({
      key: "re-1",
      steps: [counting("do", "re-1.done", 1)],
      repeat: { mode: "UNLIMITED" },
    });
    await game.quests("re-2");
    const items = [
      { questKey: "re-1", order: 1, points: 4 },
      { questKey: "re-2", order: 2 },
    ];
    await game.publishAdventure({ key: "by-points", items, completion: { mode: "POINTS", value: 10 } });
    await game.publishAdventure({ key: "by-count", items, completion: { mode: "COUNT", value: 1 } });
    await game.send("re-1.done");
    assert.equal((await game.adventureOf("by-count")).state, "CLAIMED");
    await game.send("re-1.done");
    assert.equal((await game.adventureOf("by-points")).percent, 80);
    await game.send("re-1.done");
    const { state, points, items: shown } = await game.adventureOf("by-points");
    assert.deepEqual([state, points, shown[0].completions], ["CLAIMED", 12, 3]);
  });

  it("wait to be joined where players join by hand, and let in only those of the audience", async () => {
    await game.quests("jo-1");
    await game.make("/segments", { key: "testers", name: "Testers", kind: "STATIC" });
    await game.publishAdventure({
      key: "joined",
      join: "MANUAL",
      audience: { segmentKeys: ["testers"] },
      items: [{ questKey: "jo-1", order: 1 }],
    });
    assert.equal((await game.adventureOf("joined")).state, "LOCKED");
    assertError(await game.onAdventure("joined", "join"), 409, "ADVENTURE_NOT_AVAILABLE");
    must(await game.post("/segments/testers/members", { playerIds: [player] }), 200);
    assert.equal((await game.adventureOf("joined")).state, "AVAILABLE");
    await game.send("jo-1.done");
    assert.equal((await game.questOf("jo-1")).state, "LOCKED");
    must(await game.onAdventure("joined", "join"), 200);
    assertError(await game.onAdventure("joined", "join"), 409, "ADVENTURE_NOT_AVAILABLE");
    await game.send("jo-1.done");
    assert.equal((await game.adventureOf("joined")).state, "CLAIMED");
  });

  it("run between their start and end; what was reached can be claimed for a while after it", async () => {
    await game.quests("ti-1", "ti-2");
    const items = [
      { questKey: "ti-1", order: 1, points: 10 },
      { questKey: "ti-2", order: 2 },
    ];
    const tiers = [{ tier: 1, points: 10, free: { xp: 5 } }];
    await game.publishAdventure({ key: "timed", items, tiers, claim: "MANUAL", endsAt: inDays(2) });
    await game.publishAdventure({ key: "to-come", items, startsAt: inDays(1) });
    assert.deepEqual((await game.get("/adventures/to-come")).status, "SCHEDULED");
    assert.equal((await game.adventureOf("to-come")).state, "LOCKED");
    must(await game.onAdventure("to-come", "premium", { grant: true }), 200);
    assert.deepEqual(
      (await game.adventureOf("to-come")).premium,
      true,
      "premium can be had before the start",
    );
    await game.send("ti-1.done");
    must(await game.post("/adventures/timed/end"), 200);
    const over = await game.adventureOf("timed");
    assert.deepEqual([over.state, over.points], ["EXPIRED", 10]);
    assert.equal((await game.questOf("ti-2")).state, "LOCKED");
    must(await game.onAdventure("timed", "tiers/1/claim"), 200);
    assert.equal(await game.xp(), 5);
    assertError(await game.onAdventure("timed", "join"), 409, "ADVENTURE_NOT_AVAILABLE");
    await settleAdventures.run(game.api.app, "*");
    assert.equal((await game.adventureOf("timed")).state, "EXPIRED");
    must(await game.post("/adventures/timed/publish"), 200);
    assert.equal((await game.adventureOf("timed")).state, "IN_PROGRESS", "it goes on when it runs again");
    await game.send("ti-2.done");
    assert.equal((await game.adventureOf("timed")).state, "COMPLETED");
    must(await game.post("/adventures/timed/end"), 200);
    await settleAdventures.run(game.api.app, "*");
    assert.equal((await game.adventureOf("timed")).state, "COMPLETED", "it waits to be claimed");
    assert.equal(must(await game.onAdventure("timed", "claim"), 200).state, "CLAIMED");
  });

  it("are at once what a new version makes of the points that players have", async () => {
    await game.quests("nv-1");
    const items = [{ questKey: "nv-1", order: 1 }];
    const pointsFrom = [{ metric: { eventTypes: ["nv.done"], aggregate: "count" }, pointsPerUnit: 10 }];
    const tier = (points: number) => [{ tier: 1, points, free: { xp: 5 } }];
    const completion = { mode: "POINTS", value: 100 };
    await game.publishAdventure({ key: "nv", items, claim: "AUTO", pointsFrom, tiers: tier(50), completion });
    await game.send("nv.done");
    await game.send("nv.done");
    const change = {
      draftVersion: 1,
      tiers: tier(20),
      completion: { ...completion, value: 15 },
      rewards: { xp: 1 },
    };
    must(await game.patch("/adventures/nv", change), 200);
    must(await game.post("/adventures/nv/publish"), 200);
    await eventually(async () => (await game.adventureOf("nv")).state === "CLAIMED");
    assert.equal((await game.adventureOf("nv")).tiers[0].claimed, true);
    assert.equal(await game.xp(), 6);
    await settleAdventures.run(game.api.app, "*");
    assert.equal(await game.xp(), 6);
  });

  it("do not go on while they are paused, and follow the version that is published", async () => {
    await game.quests("pz-1", "pz-2");
    const items = [{ questKey: "pz-1", order: 1, points: 10 }];
    await game.publishAdventure({ key: "paused", items, rewards: { xp: 1 } });
    must(await game.post("/adventures/paused/pause"), 200);
    await game.send("pz-1.done");
    assert.equal((await game.questOf("pz-1")).state, "LOCKED");
    must(await game.post("/adventures/paused/resume"), 200);
    const more = [...items, { questKey: "pz-2", order: 2, points: 1 }];
    must(await game.patch("/adventures/paused", { draftVersion: 1, items: more }), 200);
    assertError(
      await game.patch("/adventures/paused", { draftVersion: 1, name: "x" }),
      409,
      "VERSION_CONFLICT",
    );
    assert.equal(must(await game.post("/adventures/paused/publish"), 200).publishedVersion, 2);
    await game.send("pz-1.done");
    assert.equal((await game.adventureOf("paused")).state, "IN_PROGRESS");
    const { data } = await game.get("/adventures/paused/versions");
    assert.deepEqual(pluck(data, "version"), [2, 1]);
    must(await game.post("/quests/pz-1/pause"), 200);
    const archived = await game.api.delete("/api/v1/quests/pz-1", { key: game.tenant.key });
    assertError(archived, 409, "IN_USE");
  });
});
