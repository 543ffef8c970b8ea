import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { settleQuests } from "../../src/jobs/jobs.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aQuestGame, counting } from "../support/quests/quest-game.ts";
import { callsOf, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

describe("quests of players", () => {
  const game = madeOnce(async () => aQuestGame(await startApp()));
  let player: string;
  const { publish, send, questOf, act, xp, post, get, make } = callsOf(game);

  beforeEach(async () => {
    player = await game.newPlayer();
  });

  it("start by themselves, count, and give the rewards of steps and of the whole once", async () => {
    await publish({
      key: "story",
      steps: [counting("read", "story.read", 2, { rewards: { xp: 10 } }), counting("quiz", "story.quiz", 1)],
      rewards: { xp: 100 },
    });
    const before = await questOf("story");
    assert.equal(before.state, "AVAILABLE");
    assert.equal(before.id, null);
    await send("story.quiz");
    assert.equal((await questOf("story")).state, "AVAILABLE", "the second step does not start it");
    await send("story.read");
    const begun = await questOf("story");
    assert.deepEqual(
      [begun.state, begun.percent, begun.steps.map(({ state, value }: Json) => [state, value])],
      [
        "IN_PROGRESS",
        25,
        [
          ["ACTIVE", 1],
          ["LOCKED", 0],
        ],
      ],
    );
    const { effects } = await send("story.read");
    assert.ok(effects.some(({ type }) => type === "quest.step_completed"));
    assert.equal(await xp(), 10);
    await send("story.quiz");
    const done = await questOf("story");
    assert.deepEqual([done.state, done.percent, done.steps[1].value], ["CLAIMED", 100, 1]);
    assert.equal(await xp(), 110);
    await send("story.read");
    await send("story.quiz");
    assert.equal(await xp(), 110);
  });

  it("follow the states of players, and one another", async () => {
    await publish({
      key: "climb",
      steps: [
        {
          key: "rich",
          name: "rich",
          kind: "STATE",
          condition: { all: [{ type: "player_property", field: "xp", op: "gte", value: 50 }] },
        },
      ],
      start: { mode: "MANUAL" },
      rewards: { xp: 5 },
    });
    await publish({
      key: "after-climb",
      prerequisites: {
        all: [{ type: "progress_state", entity: "quest", key: "climb", states: ["CLAIMED"] }],
      },
      steps: [counting("walk", "walked", 1)],
    });
    const locked = await questOf("after-climb");
    assert.equal(locked.state, "LOCKED");
    assert.equal(locked.lockedBy[0].path, "prerequisites.all[0]");
    assertError(await act("after-climb", "start"), 409, "QUEST_NOT_AVAILABLE");
    must(await act("climb", "start"), 200);
    must(await post(`/players/${player}/xp`, { amount: 60 }), 201);
    assert.equal((await questOf("climb")).state, "CLAIMED");
    assert.equal((await questOf("after-climb")).state, "AVAILABLE");
    await send("walked");
    assert.equal((await questOf("after-climb")).state, "CLAIMED");
  });

  it("repeat each day, and wait to be claimed", async () => {
    await publish({
      key: "daily",
      steps: [counting("do", "daily.done", 2)],
      repeat: { mode: "DAILY" },
      claim: "MANUAL",
      rewards: { xp: 7 },
    });
    const day = (n: number) => new Date(Date.UTC(2026, 0, n, 12)).toISOString();
    for (const n of [1, 1, 2, 3, 3]) await send("daily.done", { timestamp: day(n) });
    const first = await get(`/players/${player}/quests/daily?cycle=2026-01-01`);
    assert.equal(first.state, "COMPLETED");
    assert.equal((await get(`/players/${player}/quests/daily?cycle=2026-01-03`)).state, "COMPLETED");
    assert.equal(must(await act("daily", "claim"), 200).cycleKey, "2026-01-01");
    assert.equal(must(await act("daily", "claim", { cycle: "2026-01-03" }), 200).state, "CLAIMED");
    assertError(await act("daily", "claim", { cycle: "2026-01-03" }), 409, "ALREADY_CLAIMED");
    assert.equal(await xp(), 14);
  });

  it("can be abandoned and started again in the same cycle, without a second reward for a step", async () => {
    await publish({
      key: "again",
      steps: [counting("one", "again.one", 1, { rewards: { xp: 3 } }), counting("two", "again.two", 1)],
      rewards: { xp: 1 },
    });
    await send("again.one");
    assert.equal(must(await act("again", "abandon"), 200).state, "ABANDONED");
    await send("again.one");
    assert.equal((await questOf("again")).state, "ABANDONED");
    const restarted = must(await act("again", "start"), 200);
    assert.deepEqual([restarted.state, restarted.percent], ["IN_PROGRESS", 0]);
    await send("again.one");
    await send("again.two");
    assert.equal(await xp(), 4);
  });

  it("are refused when they cannot end", async () => {
    const refused = async (quest: Json, field: string) => {
      const answer = await post("/quests", { key: randomUUID(), name: "Bad", ...quest });
      assertError(answer, 400);
      assert.ok(
        answer.body.error.details.some((one: Json) => String(one["field"]).startsWith(field)),
        JSON.stringify(answer.body),
      );
    };
    await refused({ steps: Array.from({ length: 51 }, (_, i) => counting(`s${i}`, "x", 1)) }, "steps");
    await refused({ steps: [counting("a", "x", 1, { optional: true })] }, "steps");
    await refused({ stepMode: "ANY", requiredSteps: 2, steps: [counting("a", "x", 1)] }, "requiredSteps");
  });

  it("are done at once by who has done what a new version asks, without another event", async () => {
    await make("/rewards", { key: "cup", name: "Cup", kind: "BUNDLE", bundle: { xp: 7 }, stock: 3 });
    const rewards = { rewards: [{ rewardKey: "cup" }] };
    await publish({ key: "less", steps: [counting("a", "less.a", 5)], rewards });
    for (const _ of [1, 2, 3]) await send("less.a");
    const banned = await game.newPlayer();
    await send("less.a");
    await send("less.a");
    must(await post(`/players/${banned}/status`, { status: "BANNED" }), 200);
    const change = { steps: [counting("a", "less.a", 2)], onVersionChange: "CARRY_OVER" };
    must(await game.patch("/quests/less", change), 200);
    must(await post("/quests/less/publish"), 200);
    const path = `/players/${player}`;
    await eventually(async () => (await get(`${path}/quests/less`)).state === "CLAIMED");
    assert.equal((await get(path)).xp, 7);
    assert.equal((await get("/rewards/cup/stock")).left, 2);
    assert.equal((await get(`/players/${banned}`)).xp, 0);
    await settleQuests.run(game.api.app, "*");
    assert.equal((await get(path)).xp, 7);
  });

  it("keep players on the version that they began", async () => {
    await publish({ key: "kept", steps: [counting("a", "kept.a", 2), counting("b", "kept.b", 1)] });
    await send("kept.a");
    const change = { steps: [counting("a", "kept.a", 5)], onVersionChange: "KEEP" };
    must(await game.patch("/quests/kept", change), 200);
    assert.equal(must(await post("/quests/kept/publish"), 200).publishedVersion, 2);
    await send("kept.a");
    const { questVersion, steps } = await questOf("kept");
    assert.deepEqual([questVersion, steps.map((step: Json) => step["state"])], [1, ["DONE", "ACTIVE"]]);
    const { data } = await get("/quests/kept/versions");
    assert.deepEqual(pluck(data, "version"), [2, 1]);
    must(await post("/quests/kept/pause"), 200);
    await send("kept.b");
    assert.equal((await questOf("kept")).state, "IN_PROGRESS");
    must(await post("/quests/kept/resume"), 200);
    await send("kept.b");
    assert.equal((await questOf("kept")).state, "CLAIMED");
  });
});
