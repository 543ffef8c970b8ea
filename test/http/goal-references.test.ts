import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { type AdventureGame, anAdventureGame, counting } from "../support/quests/quest-game.ts";

describe("what quests and adventures need of one another", () => {
  let game: AdventureGame;
  before(async () => {
    game = await anAdventureGame(await startApp());
  });

  const claimed = (key: string) => ({
    all: [{ type: "progress_state", entity: "quest", key, states: ["CLAIMED"] }],
  });
  const stepOf = (key: string, stepKey: string) => ({
    all: [{ type: "progress_state", entity: "quest_step", key, stepKey, states: ["DONE"] }],
  });
  const publish = (key: string) => game.post(`/quests/${key}/publish`);

  it("closes no circle of STATE steps, but lets quests exclude one another", async () => {
    await game.publish({ key: "st-b", steps: [counting("a", "x", 1)] });
    const waits = (key: string) => [{ key: "wait", name: "Wait", kind: "STATE", condition: claimed(key) }];
    await game.publish({ key: "st-a", steps: waits("st-b") });
    must(await game.patch("/quests/st-b", { steps: waits("st-a") }), 200);
    const circle = await publish("st-b");
    assertError(circle, 400, "QUEST_CYCLE");
    assert.match(circle.body.error.message, /steps: .*quest st-b → quest st-a → quest st-b/);
    const without = (key: string) => ({ none: [claimed(key).all[0]] });
    await game.publish({ key: "left", steps: [counting("a", "x", 1)] });
    await game.publish({ key: "right", steps: [counting("a", "x", 1)], prerequisites: without("left") });
    must(await game.patch("/quests/left", { prerequisites: without("right") }), 200);
    must(await publish("left"), 200);
  });

  it("names only steps that there are, and steps that others name stay", async () => {
    await game.publish({ key: "named", steps: [counting("a", "x", 1), counting("b", "x", 1)] });
    const prerequisites = stepOf("named", "c");
    await game.make("/quests", {
      key: "names",
      name: "Names",
      steps: [counting("a", "x", 1)],
      prerequisites,
    });
    const unknown = await publish("names");
    assertError(unknown, 400, "UNKNOWN_STEP");
    assert.equal(unknown.body.error.details[0].field, "prerequisites.all.0.stepKey");
    must(await game.patch("/quests/names", { prerequisites: stepOf("named", "b") }), 200);
    must(await publish("names"), 200);
    must(await game.patch("/quests/named", { steps: [counting("a", "x", 1)] }), 200);
    const gone = await publish("named");
    assertError(gone, 409, "IN_USE");
    assert.match(gone.body.error.message, /the quest names names the step b/);
    must(await game.patch("/quests/names", { prerequisites: null }), 200);
    must(await publish("names"), 200);
    must(await publish("named"), 200);
  });

  it("keeps quests of an adventure running, and repeating where it needs that", async () => {
    await game.publish({ key: "again", steps: [counting("a", "x", 1)], repeat: { mode: "DAILY" } });
    await game.publishAdventure({
      key: "needs",
      items: [{ questKey: "again", order: 1, points: 10 }],
      tiers: [{ tier: 1, points: 30, free: { xp: 1 } }],
    });
    must(await game.patch("/quests/again", { repeat: { mode: "NONE" } }), 200);
    const once = await publish("again");
    assertError(once, 400, "ADVENTURE_CANNOT_END");
    assert.match(
      once.body.error.message,
      /repeat.mode: the adventure needs needs it to repeat: its tiers.0.points/,
    );
    must(await game.patch("/quests/again", { repeat: { mode: "WEEKLY" } }), 200);
    must(await publish("again"), 200);
    const ended = await game.post("/quests/again/end");
    assertError(ended, 409, "IN_USE");
    assert.match(ended.body.error.message, /adventures have it as an item: needs; end or change them first/);
    must(await game.post("/quests/again/pause"), 200);
    must(await game.post("/quests/again/resume"), 200);
    must(await game.post("/adventures/needs/end"), 200);
    must(await game.patch("/quests/again", { repeat: { mode: "NONE" } }), 200);
    must(await publish("again"), 200);
    must(await game.post("/quests/again/end"), 200);
  });

  it("is not lost by an import that prunes", async () => {
    await game.quests("pruned");
    await game.publishAdventure({ key: "pruning", items: [{ questKey: "pruned", order: 1 }] });
    const document = await game.get("/config/export");
    const pruned = document.adventures.filter(({ key }: Json) => key === "pruning");
    const prune = (adventures: unknown) =>
      game.post("/config/import", { document: { ...document, quests: [], adventures }, prune: true });
    const refused = await prune(pruned);
    assertError(refused, 409, "IN_USE");
    assert.match(refused.body.error.message, /quests.*pruned.*adventures have it as an item: pruning/);
    must(await prune([]), 200);
    assert.equal((await game.get("/quests?status=ARCHIVED&search=pruned")).data.length, 1);
  });
});
