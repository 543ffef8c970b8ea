import assert from "node:assert/strict";
import { counting, aQuestGame, type QuestGame } from "../support/quests/quest-game.ts";
import { startApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";

describe("places and entry costs of quests", () => {
  let game: QuestGame;
  before(async () => {
    game = await aQuestGame(await startApp());
    await game.make("/currencies", { key: "coins", name: "Coins", initialBalance: 30 });
  });

  const coins = async (player: string) => (await game.get(`/players/${player}`)).currencies.coins;
  const reasonOf = (answer: { body: unknown }) => (answer.body as { error: { reason: string } }).error.reason;

  it("take the cost with the start, once in a cycle, and refuse who cannot pay", async () => {
    await game.publish({
      key: "paid",
      start: { mode: "MANUAL", cost: { currencyKey: "coins", amount: 20 } },
      steps: [counting("one", "paid.done", 1)],
      repeat: { mode: "UNLIMITED" },
    });
    const player = await game.newPlayer();
    must(await game.act("paid", "start"), 200);
    assert.equal(await coins(player), 10);
    must(await game.act("paid", "abandon"), 200);
    must(await game.act("paid", "start"), 200);
    assert.equal(await coins(player), 10, "the cycle is paid for");
    await game.send("paid.done");
    const refused = await game.act("paid", "start");
    must(refused, 409);
    assert.equal(reasonOf(refused), "INSUFFICIENT_FUNDS");
    assert.equal(await coins(player), 10);
    const { data } = await game.get(`/players/${player}/ledger?asset=CURRENCY`);
    assert.deepEqual(
      data.map(({ amount }: { amount: number }) => amount),
      [-20, 30],
    );
  });

  it("refund the cost when the event whose rule has started the quest is reverted", async () => {
    const rule = {
      key: "enter",
      name: "Enter",
      triggers: [{ kind: "EVENT", eventTypes: ["gate.passed"] }],
      actions: [{ type: "update_quest", key: "paid", operation: "START" }],
    };
    await game.make("/rules", rule);
    must(await game.post("/rules/enter/publish"), 200);
    const player = await game.newPlayer();
    const { eventId } = await game.send("gate.passed");
    assert.equal(await coins(player), 10);
    const job = must(await game.post(`/events/${eventId}/revert`, { reason: "test" }), 200);
    await eventually(async () => (await game.get(`/jobs/${job.id}`)).status === "SUCCEEDED");
    assert.equal(await coins(player), 30);
    assert.equal((await game.questOf("paid")).state, "AVAILABLE");
    must(await game.act("paid", "start"), 200);
    assert.equal(await coins(player), 10, "a further start costs again");
  });

  it("are as many as the quest has: the others are LOCKED, and who has one keeps it", async () => {
    await game.publish({
      key: "few",
      start: { mode: "MANUAL" },
      steps: [counting("one", "few.done", 1)],
      repeat: { mode: "UNLIMITED" },
      maxParticipants: 1,
    });
    await game.publish({ key: "few-auto", steps: [counting("one", "few.auto", 2)], maxParticipants: 1 });
    await game.newPlayer();
    must(await game.act("few", "start"), 200);
    await game.send("few.done");
    await game.send("few.auto");
    must(await game.act("few", "start"), 200);
    assert.equal((await game.questOf("few-auto")).state, "IN_PROGRESS");
    await game.newPlayer();
    const { state, lockedBy } = await game.questOf("few");
    assert.deepEqual(
      [state, lockedBy],
      ["LOCKED", [{ path: "maxParticipants", reason: "all places are taken", names: [] }]],
    );
    for (const what of ["start", "complete"])
      assert.equal(reasonOf(await game.act("few", what)), "LIMIT_REACHED");
    await game.send("few.auto");
    assert.equal((await game.questOf("few-auto")).state, "LOCKED");
    // A limit that is set later counts those who are there.
    must(await game.patch("/quests/few", { draftVersion: 1, maxParticipants: null }), 200);
    must(await game.post("/quests/few/publish"), 200);
    must(await game.act("few", "start"), 200);
    must(await game.patch("/quests/few", { draftVersion: 2, maxParticipants: 2 }), 200);
    must(await game.post("/quests/few/publish"), 200);
    await game.newPlayer();
    assert.equal(reasonOf(await game.act("few", "start")), "LIMIT_REACHED");
  });

  it("are checked: a cost is for MANUAL starts, of a currency that exists, and of at least 1", async () => {
    const quest = { key: "bad", name: "Bad", steps: [counting("one", "x", 1)] };
    const cost = { currencyKey: "coins", amount: 1 };
    must(await game.post("/quests", { ...quest, start: { mode: "AUTO", cost } }), 400);
    must(
      await game.post("/quests", { ...quest, start: { mode: "MANUAL", cost: { ...cost, amount: 0 } } }),
      400,
    );
    must(await game.post("/quests", { ...quest, maxParticipants: 0 }), 400);
    const unknown = { mode: "MANUAL", cost: { ...cost, currencyKey: "none" } };
    await game.make("/quests", { ...quest, start: unknown });
    must(await game.post("/quests/bad/publish"), 400);
  });
});
