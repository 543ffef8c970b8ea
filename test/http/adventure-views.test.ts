import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { anAdventureGame, counting } from "../support/quests/quest-game.ts";
import { madeOnce } from "../support/made.ts";

describe("what is shown of a player's adventures", () => {
  const game = madeOnce(async () => anAdventureGame(await startApp()));
  let player: string;

  before(async () => {
    await game.make("/currencies", { key: "gems", name: "Gems" });
  });
  beforeEach(async () => {
    player = await game.newPlayer();
  });

  it("has what a client shows: texts, names of quests, rewards and the price", async () => {
    await game.publish({
      key: "sh-1",
      name: "The first",
      steps: [counting("do", "sh-1.done", 1)],
      translations: { fr: { name: "La première" } },
    });
    const tiers = [
      { tier: 1, points: 10, free: { xp: 1 }, premium: { currencies: { gems: 5 } } },
      { tier: 2, points: 20, premium: { xp: 9 } },
    ];
    await game.publishAdventure({
      key: "shown",
      name: "Shown",
      description: "All of it",
      imageUrl: "https://example.com/shown.png",
      items: [{ questKey: "sh-1", order: 1, points: 20, chapter: "one" }],
      tiers,
      premiumPrice: { currencyKey: "gems", amount: 3 },
      rewards: { xp: 7 },
    });
    must(await game.patch(`/players/${player}`, { locale: "fr-CA" }), 200);
    const shown = await game.adventureOf("shown");
    const { description, imageUrl, join, claim, rewards, premiumPrice } = shown;
    assert.deepEqual(
      [description, imageUrl, join, claim, rewards, premiumPrice],
      [
        "All of it",
        "https://example.com/shown.png",
        "AUTO",
        "AUTO",
        { xp: 7 },
        { currencyKey: "gems", amount: 3 },
      ],
    );
    const notYet = { reached: false, claimed: false, premiumClaimed: false };
    assert.deepEqual(shown.tiers, [
      { ...tiers[0], ...notYet },
      { ...tiers[1], free: null, ...notYet },
    ]);
    const { unlocked, unlocksAt, state, completions, ...item } = shown.items[0];
    assert.deepEqual([unlocked, unlocksAt, state, completions], [true, null, "AVAILABLE", 0]);
    const [questKey, chapter] = ["sh-1", "one"];
    assert.deepEqual(item, { questKey, name: "La première", chapter, optional: false, points: 20 });
    const listed = async (asked: string): Promise<string[]> => {
      const { data } = await game.get(`/players/${player}/adventures?state=${asked}`);
      return data.map(({ adventureKey }: Json) => adventureKey);
    };
    assert.deepEqual([await listed(shown.state), await listed("COMPLETED")], [["shown"], []]);
  });

  it("say of a quest which adventure keeps it LOCKED, and what it waits for", async () => {
    await game.quests("lo-1", "lo-2", "lo-3", "lo-4", "lo-5", "lo-6");
    const day = 86_400_000;
    const startsAt = new Date(Date.now() + day).toISOString();
    const at = new Date(Date.now() + 2 * day).toISOString();
    await game.publishAdventure({
      key: "locks",
      items: [
        { questKey: "lo-1", order: 1, points: 10 },
        { questKey: "lo-2", order: 2, points: 10, unlock: { mode: "AFTER_PREVIOUS" } },
        { questKey: "lo-3", order: 3, points: 10, unlock: { mode: "POINTS", points: 20 } },
        { questKey: "lo-4", order: 4, unlock: { mode: "AT_DATE", at } },
        { questKey: "lo-5", order: 5, unlock: { mode: "DAY_OFFSET", days: 2 } },
      ],
    });
    await game.publishAdventure({ key: "later", startsAt, items: [{ questKey: "lo-6", order: 1 }] });
    const locks = async (key: string): Promise<unknown[]> => {
      const { state, lockedBy } = await game.questOf(key);
      assert.equal(state, "LOCKED");
      return lockedBy.map(({ path, reason, names }: Json) => [path, reason, names]);
    };
    const adventure = { kind: "adventure", key: "locks" };
    const of = (reason: string, ...quests: string[]) => [
      [
        "adventures",
        `the adventure locks ${reason}`,
        [adventure, ...quests.map((key) => ({ kind: "quest", key }))],
      ],
    ];
    assert.deepEqual(await locks("lo-2"), of("unlocks it after lo-1", "lo-1"));
    assert.deepEqual(await locks("lo-3"), of("unlocks it with 20 points, and the player has 0"));
    assert.deepEqual(await locks("lo-4"), of(`unlocks it at ${at}`));
    assert.deepEqual(await locks("lo-5"), of("unlocks it 2 days after the player has joined"));
    assert.deepEqual(await locks("lo-6"), [
      ["adventures", `the adventure later begins at ${startsAt}`, [{ kind: "adventure", key: "later" }]],
    ]);
    must(await game.post("/adventures/locks/pause"), 200);
    assert.deepEqual(await locks("lo-1"), of("is paused"));
    must(await game.post("/adventures/locks/end"), 200);
    assert.deepEqual(await locks("lo-1"), of("is over"));
  });
});
