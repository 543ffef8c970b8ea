import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aQuestGame, coded, manual, pooled, quiz, RIGHT, stepActs } from "../support/quests/quest-game.ts";
import { madeOnce } from "../support/made.ts";

describe("quests of steps that players do themselves", () => {
  const game = madeOnce(async () => aQuestGame(await startApp()));
  let player: string;
  const { submit, review, queue, stateOf } = stepActs(() => game);

  beforeEach(async () => {
    player = await game.newPlayer();
  });

  it("are done in their order, and with what is meant for their kind", async () => {
    await game.publish({
      key: "order",
      steps: [coded("first", ["a"]), manual("second"), quiz("third")],
    });
    assertError(await submit("order", "second"), 409, "STEP_LOCKED");
    assertError(await submit("order", "none"), 404);
    for (const [step, body, field] of [
      ["first", {}, "code"],
      ["first", { answers: RIGHT }, "answers"],
      ["second", { code: "a" }, "code"],
      ["first", { code: "a", evidence: "b" }, ""],
      ["first", { code: 1 }, "code"],
      ["first", { code: "x".repeat(201) }, "code"],
      ["third", { answers: { capital: [-1] } }, "answers.capital.0"],
      ["first", { codes: "a" }, "body"],
    ] as const) {
      const refused = await submit("order", step, body);
      assertError(refused, 400);
      if (field !== "") assert.equal(refused.body.error.details[0].field, field, JSON.stringify(body));
    }
    for (const [step, body] of [
      ["first", { code: "a" }],
      ["second", {}],
      ["third", { answers: RIGHT }],
    ] as const)
      assert.equal(must(await submit("order", step, body), 200).accepted, true);
    assert.equal((await stateOf("order"))[0], "CLAIMED");
  });

  it("follow `dependsOn`, pauses, ends, limits of time and starts by hand", async () => {
    await game.publish({
      key: "graph",
      stepMode: "PARALLEL",
      steps: [manual("a"), manual("b", { dependsOn: ["a"] })],
      start: { mode: "MANUAL" },
    });
    assertError(await submit("graph", "a"), 409, "QUEST_NOT_AVAILABLE");
    must(await game.act("graph", "start"), 200);
    assertError(await submit("graph", "b"), 409, "STEP_LOCKED");
    must(await submit("graph", "a"), 200);
    must(await game.post("/quests/graph/pause"), 200);
    assertError(await submit("graph", "b"), 409, "INVALID_STATE");
    must(await game.post("/quests/graph/resume"), 200);
    must(await submit("graph", "b"), 200);

    await game.publish({ key: "timed", steps: [manual("a", { target: 2 })], timeLimitSeconds: 60 });
    must(await submit("timed", "a"), 200);
    await game.api.sql`update player_quests set expires_at = now() - interval '1 s'
      where player_id = ${player} and quest_key = 'timed'`;
    assertError(await submit("timed", "a"), 409, "QUEST_NOT_AVAILABLE");
    await game.publish({ key: "ended", steps: [manual("a", { target: 2 })] });
    must(await submit("ended", "a"), 200);
    must(await game.post("/quests/ended/end"), 200);
    assertError(await submit("ended", "a"), 409, "QUEST_NOT_AVAILABLE");
  });

  it("of quests that start at once are open as soon as the player is looked at", async () => {
    await game.publish({
      key: "at-once",
      steps: [manual("a"), coded("b", ["b"])],
      repeat: { mode: "DAILY" },
    });
    assert.deepEqual(await stateOf("at-once"), ["IN_PROGRESS", "ACTIVE", "LOCKED"]);
    const { id } = await game.questOf("at-once");
    assert.equal((await game.questOf("at-once")).id, id);
    const { data } = await game.get(`/players/${await game.newPlayer()}/quests`);
    const listed = data.find(({ questKey }: Json) => questKey === "at-once");
    assert.equal(listed.state, "IN_PROGRESS");
    assert.notEqual(listed.id, id);
    must(await game.act("at-once", "abandon"), 200);
    assert.equal((await stateOf("at-once"))[0], "ABANDONED", "what was abandoned stays so");
    assertError(await submit("at-once", "a"), 409, "QUEST_NOT_AVAILABLE");
  });

  it("keep what was submitted by the version that is published next, as it says", async () => {
    for (const [onVersionChange, value] of [
      ["KEEP", 1],
      ["CARRY_OVER", 1],
      ["RESTART", 0],
    ] as const) {
      const key = `versions-${onVersionChange.toLowerCase()}`;
      await game.publish({ key, steps: [manual("a", { target: 3, requiresApproval: true })] });
      must(await submit(key, "a"), 200);
      must(await review(key, "a", { decision: "APPROVE" }), 200);
      must(await submit(key, "a"), 200);
      must(await game.patch(`/quests/${key}`, { name: "New", onVersionChange }), 200);
      must(await game.post(`/quests/${key}/publish`), 200);
      const { playerQuest } = must(await submit(key, "a"), 200);
      assert.equal(playerQuest.steps[0].value, value, onVersionChange);
      const waiting = await queue(`status=PENDING&questId=${key}`);
      assert.equal(waiting.length, onVersionChange === "RESTART" ? 1 : 2, onVersionChange);
    }
    await game.publish({ key: "other-kind", steps: [manual("a", { target: 3 })] });
    must(await submit("other-kind", "a"), 200);
    const steps = [quiz("a", { passScore: 1 })];
    must(await game.patch("/quests/other-kind", { steps, onVersionChange: "CARRY_OVER" }), 200);
    must(await game.post("/quests/other-kind/publish"), 200);
    assert.equal(must(await submit("other-kind", "a", { answers: {} }), 200).playerQuest.steps[0].value, 0);
  });

  it("are refused to publish where they cannot be done", async () => {
    const refused = async (steps: object[], field: string, reason?: string): Promise<void> => {
      const key = `bad-${randomUUID()}`;
      const made = await game.post("/quests", { key, name: key, steps });
      const answer = made.status === 201 ? await game.post(`/quests/${key}/publish`) : made;
      assertError(answer, 400, reason);
      assert.equal(answer.body.error.details[0].field, field);
    };
    const [question] = quiz("q").questions;
    const asking = (more: object) => [quiz("q", { questions: [{ ...question, ...more }] })];
    await refused([{ key: "c", name: "c", kind: "CODE" }], "steps.0.codeHashes", "CODES_MISSING");
    await refused([coded("c", [])], "steps.0.codeHashes", "CODES_MISSING");
    await refused([{ ...coded("c", []), codeHashes: ["open sesame"] }], "steps.0.codeHashes.0");
    await refused([pooled("c", { codeHashes: ["a".repeat(64)] })], "steps.0.codeHashes");
    await refused(asking({ correct: [] }), "steps.0.questions.0.correct");
    await refused(asking({ correct: [3] }), "steps.0.questions.0.correct.0");
    await refused(asking({ correct: [1, 1] }), "steps.0.questions.0.correct.1");
    await refused(asking({ options: ["a", "a"] }), "steps.0.questions.0.options.1");
    await refused([quiz("q", { questions: [question, question] })], "steps.0.questions.1.key");
    await refused([quiz("q", { passScore: 101 })], "steps.0.passScore");
    await refused([quiz("q", { passScore: 0 })], "steps.0.passScore");
    await refused([manual("m", { target: 0 })], "steps.0.target");
    await refused([manual("m", { target: 101 })], "steps.0.target");
    await refused([manual("m", { evidence: "PHOTO" })], "steps.0.evidence");
  });
});
