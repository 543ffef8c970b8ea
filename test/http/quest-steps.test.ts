import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import {
  aQuestGame,
  coded,
  counting,
  HALF,
  manual,
  pooled,
  quiz,
  RIGHT,
  stepActs,
} from "../support/quests/quest-game.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

describe("steps that players do themselves", () => {
  const game = madeOnce(async () => aQuestGame(await startApp()));
  let player: string;
  const { submit, review, queue, stateOf } = stepActs(() => game);

  beforeEach(async () => {
    player = await game.newPlayer();
  });

  describe("of kind MANUAL", () => {
    it("count confirmations, and give rewards once", async () => {
      await game.publish({
        key: "water",
        steps: [manual("glass", { target: 2, rewards: { xp: 5 } }), counting("walk", "water.walk", 1)],
        rewards: { xp: 10 },
      });
      const first = must(await submit("water", "glass"), 200);
      assert.deepEqual(
        [first.accepted, first.playerQuest.state, first.playerQuest.percent],
        [true, "IN_PROGRESS", 25],
      );
      assertError(await submit("water", "walk"), 409, "INVALID_STATE");
      assert.equal(must(await submit("water", "glass"), 200).playerQuest.steps[0].state, "DONE");
      assertError(await submit("water", "glass"), 409, "STEP_DONE");
      assert.equal(await game.xp(), 5);
      await game.send("water.walk");
      assert.deepEqual([await stateOf("water"), await game.xp()], [["CLAIMED", "DONE", "DONE"], 15]);
      assertError(await submit("water", "glass"), 409, "QUEST_NOT_AVAILABLE");
    });

    it("take texts and addresses as evidence, and nothing else", async () => {
      await game.publish({
        key: "evidence",
        stepMode: "PARALLEL",
        steps: [
          manual("none", { target: 50 }),
          manual("text", { evidence: "TEXT", target: 50 }),
          manual("url", { evidence: "URL", target: 50 }),
          manual("any", { evidence: "ANY", target: 50 }),
        ],
      });
      const url = "https://example.com/photo.jpg?x=1";
      const script = "<script>alert(1)</script>";
      for (const [step, evidence] of [
        ["text", script],
        ["url", url],
        ["any", url],
        ["any", script],
      ] as const)
        assert.equal(must(await submit("evidence", step, { evidence }), 200).accepted, true);
      for (const [step, evidence] of [
        ["none", "text"],
        ["text", undefined],
        ["url", undefined],
        ["url", "javascript:alert(1)"],
        ["url", "data:text/html,hello"],
        ["url", "ftp://example.com/photo.jpg"],
        ["url", "https://user:password@example.com/"],
        ["url", "//example.com/photo.jpg"],
        ["text", "x".repeat(2_001)],
        ["url", `https://example.com/${"x".repeat(2_048)}`],
        ["text", "a\0b"],
        ["text", ""],
      ] as const) {
        const refused = await submit("evidence", step, evidence === undefined ? {} : { evidence });
        assertError(refused, 400);
        assert.equal(refused.body.error.details[0].field, "evidence", `${step} ${evidence?.slice(0, 30)}`);
      }
      assertError(await submit("evidence", "text", { evidence: "x".repeat(10_000_000) }), 413);
      const kept = await queue(`playerId=${player}`);
      assert.deepEqual(pluck(kept, "stepKey", "evidenceType", "evidence", "status"), [
        ["text", "TEXT", script, "CONFIRMED"],
        ["url", "URL", url, "CONFIRMED"],
        ["any", "URL", url, "CONFIRMED"],
        ["any", "TEXT", script, "CONFIRMED"],
      ]);
    });

    it("wait for an approval, and can be submitted again after a rejection", async () => {
      await game.publish({
        key: "photo",
        steps: [manual("tree", { requiresApproval: true, evidence: "URL" })],
        rewards: { xp: 7 },
      });
      const evidence = "https://example.com/tree.jpg";
      const { submissionId, playerQuest } = must(await submit("photo", "tree", { evidence }), 200);
      assert.deepEqual([playerQuest.percent, playerQuest.steps[0].state], [0, "PENDING_APPROVAL"]);
      assertError(await submit("photo", "tree", { evidence }), 409, "STEP_PENDING_APPROVAL");
      const [waiting] = await queue(`status=PENDING&playerId=${player}`);
      assert.deepEqual(
        [waiting!["id"], waiting!["evidence"], waiting!["reviewedAt"]],
        [submissionId, evidence, null],
      );
      const rejected = must(await review("photo", "tree", { decision: "REJECT", note: "blurred" }), 200);
      assert.equal(rejected.steps[0].state, "ACTIVE");
      assertError(await review("photo", "tree", { decision: "APPROVE" }), 409, "INVALID_STATE");
      assertError(await review("photo", "tree", { decision: "APPROVE", submissionId }), 409, "INVALID_STATE");
      const again = must(await submit("photo", "tree", { evidence }), 200);
      assertError(await review("photo", "tree", { decision: "APPROVE", submissionId: randomUUID() }), 404);
      const done = must(
        await review("photo", "tree", { decision: "APPROVE", submissionId: again.submissionId }),
        200,
      );
      assert.deepEqual([done.state, await game.xp()], ["CLAIMED", 7]);
      const decided = await queue(`playerId=${player}&questId=photo&stepKey=tree`);
      assert.deepEqual(pluck(decided, "status", "note"), [
        ["REJECTED", "blurred"],
        ["APPROVED", null],
      ]);
      assert.ok(
        decided.every(({ reviewedBy, reviewedAt }) => String(reviewedBy).startsWith("key:") && reviewedAt),
      );
    });

    it("withdraw what waits when the quest is over or begins anew", async () => {
      await game.publish({ key: "over", steps: [manual("do", { requiresApproval: true })] });
      for (const end of ["abandon", "fail", "reset", "complete"]) {
        await game.newPlayer();
        must(await submit("over", "do"), 200);
        must(await game.act("over", end), 200);
        assertError(await review("over", "do", { decision: "APPROVE" }), 409, "INVALID_STATE");
      }
      const all = await queue("questId=over");
      assert.deepEqual([...new Set(all.map(({ status }) => status))], ["WITHDRAWN"]);
      assert.equal(all.length, 4);
    });
  });

  describe("of kind CODE", () => {
    it("take a code however it is written, and fail after the last wrong one", async () => {
      await game.publish({
        key: "door",
        steps: [coded("word", ["open sesame", "straße 5"])],
        rewards: { xp: 3 },
      });
      assert.equal(must(await submit("door", "word", { code: "open" }), 200).accepted, false);
      // Full-width letters are the same text in NFKC.
      assert.equal(must(await submit("door", "word", { code: "  ＯＰＥＮ Sesame " }), 200).accepted, true);
      assert.deepEqual([await stateOf("door"), await game.xp()], [["CLAIMED", "DONE"], 3]);

      await game.publish({ key: "vault", steps: [coded("word", ["1234"], { maxAttempts: 2 })] });
      const wrong = must(await submit("vault", "word", { code: "1" }), 200);
      assert.deepEqual(
        [wrong.accepted, wrong.attemptsLeft, wrong.playerQuest.steps[0].attemptsLeft],
        [false, 1, 1],
      );
      const last = must(await submit("vault", "word", { code: "2" }), 200);
      assert.deepEqual([last.accepted, last.attemptsLeft, last.playerQuest.state], [false, 0, "FAILED"]);
      assertError(await submit("vault", "word", { code: "1234" }), 409, "QUEST_NOT_AVAILABLE");
    });

    it("may fail without the quest where they are optional, or others suffice", async () => {
      const once = { maxAttempts: 1 };
      await game.publish({
        key: "optional",
        stepMode: "PARALLEL",
        steps: [coded("bonus", ["a"], { ...once, optional: true }), manual("main")],
      });
      must(await submit("optional", "bonus", { code: "b" }), 200);
      assertError(await submit("optional", "bonus", { code: "a" }), 409, "STEP_FAILED");
      must(await submit("optional", "main"), 200);
      assert.deepEqual(await stateOf("optional"), ["CLAIMED", "FAILED", "DONE"]);

      await game.publish({
        key: "two-of-three",
        stepMode: "ANY",
        requiredSteps: 2,
        steps: ["a", "b", "c"].map((key) => coded(key, [key], once)),
      });
      must(await submit("two-of-three", "a", { code: "x" }), 200);
      assert.equal((await stateOf("two-of-three"))[0], "IN_PROGRESS");
      must(await submit("two-of-three", "b", { code: "b" }), 200);
      assert.equal(must(await submit("two-of-three", "c", { code: "x" }), 200).playerQuest.state, "FAILED");
    });

    it("may be tried ten times a minute, by whichever id of the player", async () => {
      await game.publish({ key: "guessed", steps: [coded("pin", ["0000"])] });
      for (let n = 1; n <= 10; n++) must(await submit("guessed", "pin", { code: String(n) }), 200);
      assertError(await submit("guessed", "pin", { code: "0000" }), 429, "QUEST_ATTEMPTS");
      const { externalUserId } = await game.get(`/players/${player}`);
      const path = `/players/ext:${externalUserId}/quests/guessed/steps/pin/submit`;
      assertError(await game.post(path, { code: "0000" }), 429, "QUEST_ATTEMPTS");
      await game.newPlayer();
      assert.equal(must(await submit("guessed", "pin", { code: "0000" }), 200).accepted, true);
    });

    it("take each code of a pool once", async () => {
      await game.publish({ key: "cards", steps: [pooled("card", { maxAttempts: 5 })], rewards: { xp: 1 } });
      const add = (codes: string[]) => game.post("/quests/cards/steps/card/codes", { codes });
      assert.deepEqual(must(await add(["One", "two", "one "]), 200), { added: 2, duplicates: 1, free: 2 });
      assert.deepEqual(must(await add(["TWO", "three"]), 200), { added: 1, duplicates: 1, free: 3 });
      assert.equal(must(await submit("cards", "card", { code: "ONE" }), 200).accepted, true);
      await game.newPlayer();
      assert.equal(must(await submit("cards", "card", { code: "one" }), 200).accepted, false);
      assert.equal(must(await submit("cards", "card", { code: "two" }), 200).accepted, true);
      // A submission that is refused leaves the code.
      assertError(await submit("cards", "card", { code: "three" }), 409, "QUEST_NOT_AVAILABLE");
      await game.newPlayer();
      assert.equal(must(await submit("cards", "card", { code: "three" }), 200).accepted, true);
      assert.equal(must(await add(["three"]), 200).free, 0);
      assertError(await game.post("/quests/cards/steps/none/codes", { codes: ["a"] }), 404);
      assertError(await game.post("/quests/door/steps/word/codes", { codes: ["a"] }), 409, "INVALID_STATE");
    });
  });

  describe("of kind QUIZ", () => {
    it("are passed with enough right answers, of which none is told", async () => {
      await game.publish({ key: "exam", steps: [quiz("test", { maxAttempts: 3 })], rewards: { xp: 4 } });
      const asked = await game.questOf("exam");
      assert.deepEqual(asked.steps[0].questions[0], {
        key: "capital",
        prompt: "The capital of France?",
        options: ["Rome", "Paris", "Oslo"],
      });
      const half = must(await submit("exam", "test", { answers: HALF }), 200);
      assert.deepEqual([half.accepted, half.score, half.attemptsLeft], [false, 50, 2]);
      assert.deepEqual([half.playerQuest.percent, half.playerQuest.steps[0].value], [50, 50]);
      assert.equal(must(await submit("exam", "test", { answers: {} }), 200).score, 0);
      assert.equal((await game.questOf("exam")).steps[0].value, 50, "the best one counts");
      for (const [answers, field] of [
        [{ other: [0] }, "answers.other"],
        [{ capital: [3] }, "answers.capital.0"],
      ] as const) {
        const refused = await submit("exam", "test", { answers });
        assertError(refused, 400);
        assert.equal(refused.body.error.details[0].field, field);
      }
      const passed = must(await submit("exam", "test", { answers: RIGHT }), 200);
      assert.deepEqual([passed.accepted, passed.score, passed.attemptsLeft], [true, 100, 0]);
      assert.deepEqual([await stateOf("exam"), await game.xp()], [["CLAIMED", "DONE"], 4]);
    });

    it("fail with the last attempt", async () => {
      await game.publish({ key: "hard-exam", steps: [quiz("test", { maxAttempts: 1 })] });
      assert.equal(
        must(await submit("hard-exam", "test", { answers: HALF }), 200).playerQuest.state,
        "FAILED",
      );
    });
  });
});
