import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { callsOf, madeOnce } from "../support/made.ts";
import { aQuestGame, counting, type QuestGame } from "../support/quests/quest-game.ts";
import { jobResult } from "../support/app/processed.ts";
import { pluck } from "../support/pluck.ts";

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
    assert.deepEqual(pluck(data, "amount"), [-20, 30]);
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
    await jobResult(game.api, game.tenant, job.id);
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

describe("quests and rules", () => {
  const game = madeOnce(async () => aQuestGame(await startApp()));
  let player: string;
  const { publish, send, questOf, act, xp, post, get, make } = callsOf(game);

  beforeEach(async () => {
    player = await game.newPlayer();
  });

  it("are started, advanced, completed and failed by rules", async () => {
    await publish({
      key: "ruled",
      steps: [counting("a", "ruled.a", 3)],
      start: { mode: "MANUAL" },
      rewards: { xp: 9 },
    });
    const rule = async (key: string, action: Json) => {
      const actions = [{ type: "update_quest", key: "ruled", ...action }];
      await make("/rules", { key, name: key, triggers: [{ kind: "EVENT", eventTypes: [key] }], actions });
      must(await post(`/rules/${key}/publish`), 200);
    };
    await rule("rule-start", { operation: "START" });
    await rule("rule-add", { operation: "ADVANCE", stepKey: "a", amount: { ref: "event.properties.n" } });
    await rule("rule-fail", { operation: "FAIL" });
    await rule("rule-reset", { operation: "RESET" });
    await send("rule-add", { properties: { n: 1 } });
    assert.equal((await questOf("ruled")).state, "AVAILABLE");
    await send("rule-start");
    await send("rule-add", { properties: { n: 2 } });
    assert.deepEqual((await questOf("ruled")).steps[0].value, 2);
    await send("rule-fail");
    assert.equal((await questOf("ruled")).state, "FAILED");
    await send("rule-reset");
    await send("rule-start");
    assert.equal(must(await act("ruled", "steps/a/progress", { set: 2 }), 200).percent, 66);
    await send("ruled.a");
    assert.equal((await questOf("ruled")).state, "CLAIMED");
    assert.equal(await xp(), 9);
    assertError(await act("ruled", "steps/a/progress", { amount: 1 }), 409, "INVALID_STATE");
  });

  it("show how many players came to each step, and who they are", async () => {
    const { id } = await publish({
      key: "funnel",
      steps: [counting("a", "funnel.a", 1), counting("b", "funnel.b", 1)],
    });
    await send("funnel.a");
    const stats = await get(`/quests/${id}/stats`);
    assert.deepEqual(
      [
        stats.started,
        stats.states.IN_PROGRESS,
        stats.steps.map(({ stepKey, done }: Json) => [stepKey, done]),
      ],
      [
        1,
        1,
        [
          ["a", 1],
          ["b", 0],
        ],
      ],
    );
    const { data } = await get(`/quests/${id}/players?state=IN_PROGRESS`);
    assert.deepEqual(pluck(data, "playerId", "percent"), [[player, 50]]);
  });
});

describe("the trace of an event", () => {
  const game = madeOnce(async () => aQuestGame(await startApp()));
  let player: string;

  beforeEach(async () => {
    player = await game.newPlayer();
  });

  /** What a simulated event says of quests, by key. */
  const verdicts = async (eventType: string, more: Json = {}): Promise<Record<string, string>> => {
    const event = { eventType, ...more };
    const { externalUserId } = await game.get(`/players/${player}`);
    const answer = await game.post("/rules/simulate", { event, player: { externalUserId } });
    const { quests } = must(answer, 200);
    return Object.fromEntries(
      quests.map(({ questKey, counted, reason, detail = "" }: Json) => {
        assert.equal(counted, reason === "COUNTED");
        return [questKey, `${String(reason)} ${String(detail)}`.trim()];
      }),
    );
  };

  it("says of each quest that counts its type whether it counted, and if not, why", async () => {
    const step = (more: Json = {}) => counting("a", "walk", 2, more);
    const far = { path: "km", op: "gte", value: 5 };
    const metric = { eventTypes: ["walk"], aggregate: "count", filter: far };
    const level = { type: "player_property", field: "level", op: "gte", value: 9 };
    await game.publish({ key: "counts", steps: [step()] });
    await game.publish({ key: "far", steps: [step({ metric })] });
    await game.publish({ key: "by-hand", steps: [step()], start: { mode: "MANUAL" } });
    await game.publish({ key: "high", steps: [step()], prerequisites: { all: [level] } });
    await game.publish({ key: "second", steps: [counting("first", "run", 1), counting("then", "walk", 1)] });
    await game.publish({ key: "paused", steps: [step()] });
    must(await game.post("/quests/paused/pause"), 200);
    await game.publish({ key: "over", steps: [step()] });
    must(await game.post("/quests/over/end"), 200);
    await game.publish({ key: "unlike", steps: [counting("a", "swim", 1)] });
    assert.deepEqual(await verdicts("walk", { properties: { km: 1 } }), {
      counts: "COUNTED",
      far: "NOT_MATCHING no step with which it begins counts such an event",
      "by-hand": "NOT_STARTED it is started by hand",
      high: "LOCKED it is LOCKED for the player: level must be at least 9, and is 1",
      second: "NOT_MATCHING no step with which it begins counts such an event",
      paused: "PAUSED",
      over: "NOT_AVAILABLE the quest is over",
    });
  });

  it("says so of quests in progress too, and of those that are done", async () => {
    await game.publish({ key: "walks", steps: [counting("first", "go", 1), counting("then", "stay", 2)] });
    await game.send("go");
    assert.equal((await verdicts("go"))["walks"], "STEP_NOT_ACTIVE the step first is done");
    assert.equal((await verdicts("stay"))["walks"], "COUNTED");
    const early = { timestamp: new Date(Date.now() - 60_000).toISOString() };
    assert.match((await verdicts("stay", early))["walks"]!, /^BEFORE_START/);
    await game.publish({ key: "waits", steps: [counting("first", "up", 2), counting("then", "down", 1)] });
    await game.send("up");
    assert.equal((await verdicts("down"))["waits"], "STEP_NOT_ACTIVE the step then waits for others");
    for (let n = 0; n < 2; n++) await game.send("stay");
    assert.equal((await verdicts("stay"))["walks"], "NOT_AVAILABLE it is CLAIMED, and can be done once");
  });
});
