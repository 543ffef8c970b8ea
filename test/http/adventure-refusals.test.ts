import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { type AdventureGame, anAdventureGame, aSeason, counting } from "../support/quests/quest-game.ts";

const item = (questKey: string, order: number, more: Json = {}) => ({ questKey, order, ...more });
const after = (...questKeys: string[]) => ({ unlock: { mode: "AFTER_QUESTS", questKeys } });
const points = (n: number) => ({ unlock: { mode: "POINTS", points: n } });

describe("adventures that are refused", () => {
  let game: AdventureGame;
  before(async () => {
    game = await anAdventureGame(await startApp());
    await game.quests("a", "b", "c");
  });

  const draft = (more: Json) =>
    game.post("/adventures", {
      key: randomUUID(),
      name: "Bad",
      items: [item("a", 1)],
      ...aSeason(),
      ...more,
    });

  const refuses = (what: string, field: string, more: Json): void => {
    it(what, async () => {
      const answer = await draft(more);
      assertError(answer, 400);
      const fields = answer.body.error.details.map((one: Json) => String(one["field"]));
      assert.ok(
        fields.some((one: string) => one.startsWith(field)),
        `${field}: ${JSON.stringify(answer.body)}`,
      );
    });
  };

  const items = (...all: Json[]) => ({ items: all });
  const tier = (n: number, more: Json = {}) => ({ tier: n, points: n * 10, free: { xp: 1 }, ...more });
  const source = (more: Json) => ({
    pointsFrom: [{ metric: { eventTypes: ["x"], aggregate: "count" }, pointsPerUnit: 1, ...more }],
  });
  const xp = { eventTypes: ["x"], aggregate: "max", property: "v" };

  refuses("end before they start", "endsAt", { endsAt: "2020-01-01T00:00:00Z" });
  refuses("let rewards be claimed before the end", "claimUntil", { claimUntil: "2020-01-01T00:00:00Z" });
  refuses("have no items", "items", { items: [] });
  refuses("have too many items", "items", { items: Array.from({ length: 101 }, (_, i) => item(`q${i}`, i)) });
  refuses("have a quest twice", "items.1.questKey", items(item("a", 1), item("a", 2)));
  refuses("have two items of one order", "items.1.order", items(item("a", 1), item("b", 1)));
  refuses(
    "have an unknown kind of unlock",
    "items.0.unlock",
    items(item("a", 1, { unlock: { mode: "LUCK" } })),
  );
  refuses("have an item that waits for itself", "items.0.unlock", items(item("a", 1, after("a"))));
  refuses("have an item that waits for no item", "items.0.unlock", items(item("a", 1, after("z"))));
  refuses(
    "have items that wait for one another",
    "items.0.unlock",
    items(item("a", 1, after("b")), item("b", 2, { unlock: { mode: "AFTER_PREVIOUS" } })),
  );
  refuses(
    "unlock an item with points that nobody can have",
    "items.1.unlock",
    items(item("a", 1), item("b", 2, points(5))),
  );
  refuses(
    "unlock an item after the end",
    "items.0.unlock.at",
    items(item("a", 1, { unlock: { mode: "AT_DATE", at: "2126-01-01T00:00:00Z" } })),
  );
  refuses(
    "unlock an item so many days later that it is over",
    "items.0.unlock.days",
    items(item("a", 1, { unlock: { mode: "DAY_OFFSET", days: 100 } })),
  );
  refuses("need more items than there are", "completion.value", { completion: { mode: "COUNT", value: 2 } });
  refuses("need points without saying how many", "completion.value", { completion: { mode: "POINTS" } });
  refuses("need points that nobody can have", "completion.value", {
    completion: { mode: "POINTS", value: 9 },
  });
  refuses("have only optional items", "completion", items(item("a", 1, { optional: true })));
  refuses("have tiers that do not rise", "tiers.1.points", {
    ...source({}),
    tiers: [tier(1), tier(2, { points: 10 })],
  });
  refuses("have a tier without rewards", "tiers.0", { ...source({}), tiers: [{ tier: 1, points: 1 }] });
  refuses("have a tier that nobody reaches", "tiers.0.points", { tiers: [tier(1)] });
  refuses("sell premium that gives nothing", "premiumPrice", {
    ...source({}),
    tiers: [tier(1)],
    premiumPrice: { currencyKey: "gems", amount: 1 },
  });
  refuses("take points from an aggregate that can fall", "pointsFrom.0.metric", source({ metric: xp }));
  refuses("take negative points", "pointsFrom.0.pointsPerUnit", source({ pointsPerUnit: -1 }));
  refuses("have an unknown zone", "timezone", { timezone: "Mars/Olympus" });
  refuses("have a field that nobody knows", "body", { nobodyKnows: 1 });

  it("name what there is not", async () => {
    const publish = async (more: Json) => {
      const { key } = must(await draft(more), 201);
      return game.post(`/adventures/${key}/publish`);
    };
    const unknown = async (more: Json, field: string) => {
      const answer = await publish(more);
      assertError(answer, 400, "UNKNOWN_REFERENCE");
      assert.equal(answer.body.error.details[0].field, field);
    };
    await unknown(items(item("nobody", 1)), "items.0.questKey");
    await unknown({ audience: { segmentKeys: ["nobody"] } }, "audience.segmentKeys.0");
    const tiers = [tier(1, { premium: { xp: 1 } })];
    await unknown(
      { ...source({}), tiers, premiumPrice: { currencyKey: "nobody", amount: 1 } },
      "premiumPrice.currencyKey",
    );
    const rewards = { badges: [{ badgeKey: "nobody" }] };
    await unknown({ rewards }, "rewards.badges.0.badgeKey");
    await unknown({ rewards: { premium: { adventureKey: "nobody" } } }, "rewards.premium.adventureKey");
    await unknown(
      { ...source({}), tiers: [tier(1, { premium: rewards })] },
      "tiers.0.premium.badges.0.badgeKey",
    );
  });

  it("need points that quests which do not repeat cannot give", async () => {
    const once = must(
      await draft({ items: [item("a", 1, { points: 5 })], completion: { mode: "POINTS", value: 9 } }),
      201,
    );
    assertError(await game.post(`/adventures/${once.key}/publish`), 400, "ADVENTURE_CANNOT_END");
    await game.publish({ key: "daily", steps: [counting("do", "x", 1)], repeat: { mode: "DAILY" } });
    must(await game.patch(`/adventures/${once.key}`, { items: [item("daily", 1, { points: 5 })] }), 200);
    must(await game.post(`/adventures/${once.key}/publish`), 200);
  });

  it("wait for quests that wait for them, however long the way", async () => {
    const waiting = (entity: string, key: string) => ({
      prerequisites: { all: [{ type: "progress_state", entity, key, states: ["CLAIMED"] }] },
    });
    await game.quests("first", "last");
    await game.publishAdventure({ key: "outer", items: [item("first", 1), item("last", 2, after("first"))] });
    must(await game.patch("/quests/first", waiting("adventure", "outer")), 200);
    assertError(await game.post("/quests/first/publish"), 400, "QUEST_CYCLE");
    must(await game.patch("/quests/first", waiting("quest", "last")), 200);
    assertError(await game.post("/quests/first/publish"), 400, "QUEST_CYCLE");
    const joined = { type: "progress_state", entity: "adventure", key: "outer", states: ["IN_PROGRESS"] };
    must(await game.patch("/quests/last", { prerequisites: { all: [joined] } }), 200);
    must(await game.post("/quests/last/publish"), 200);
    await game.publish({ key: "beyond", steps: [counting("do", "x", 1)], ...waiting("adventure", "outer") });
    const { key } = must(await draft(items(item("beyond", 1))), 201);
    must(await game.post(`/adventures/${key}/publish`), 200);
    const more = items(item("first", 1), item("last", 2), item("beyond", 3));
    must(await game.patch("/adventures/outer", more), 200);
    assertError(await game.post("/adventures/outer/publish"), 400, "QUEST_CYCLE");
  });
});
