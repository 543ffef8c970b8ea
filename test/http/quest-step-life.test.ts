import { findingsOf } from "../support/domain/domain.ts";
import assert from "node:assert/strict";
import { sql } from "kysely";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { prune, PRUNES } from "../../src/domain/registries/pruning.ts";
import { settleQuests } from "../../src/jobs/jobs.ts";
import { startApp } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { emitted } from "../support/app/outbox.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { playersOf } from "../support/players/players.ts";
import {
  aQuestGame,
  coded,
  counting,
  manual,
  pooled,
  type QuestGame,
  quiz,
  RIGHT,
  stepActs,
} from "../support/quests/quest-game.ts";
import { pluck } from "../support/pluck.ts";

describe("what players have submitted for steps of quests", () => {
  let game: QuestGame;
  let player: string;
  const { submit, review, queue, stateOf } = stepActs(() => game);
  const change = (statement: ReturnType<typeof sql>) =>
    game.api.app.transact(({ db }) => statement.execute(db));
  const findings = () => findingsOf(game.api.app, game.tenant.projectId);

  beforeEach(async () => {
    game = await aQuestGame(await startApp());
    player = await game.newPlayer();
  });

  it("goes along in a merge: what is further stays, and what waits of the other is withdrawn", async () => {
    const step = manual("do", { target: 2, requiresApproval: true, evidence: "TEXT" });
    await game.publish({ key: "both", steps: [step], rewards: { xp: 5 } });
    await game.publish({ key: "theirs", steps: [step] });
    must(await submit("both", "do", { evidence: "mine" }), 200);
    const source = await game.newPlayer();
    must(await submit("both", "do", { evidence: "theirs" }), 200);
    must(await submit("both", "do", { evidence: "theirs too" }), 200);
    must(await review("both", "do", { decision: "APPROVE" }), 200);
    must(await submit("theirs", "do", { evidence: "alone" }), 200);
    must(await game.post(`/players/${player}/merge`, { sourcePlayerId: source }), 200);
    const of = async (key: string) =>
      (await queue(`questId=${key}&playerId=${player}`)).map(({ evidence, status }) => [evidence, status]);
    assert.deepEqual(await of("both"), [
      ["mine", "WITHDRAWN"],
      ["theirs", "APPROVED"],
      ["theirs too", "PENDING"],
    ]);
    assert.deepEqual(await of("theirs"), [["alone", "PENDING"]]);
    const path = `/players/${player}/quests`;
    const decision = { decision: "APPROVE" };
    assert.equal(must(await game.post(`${path}/both/steps/do/review`, decision), 200).state, "CLAIMED");
    assert.equal(must(await game.post(`${path}/theirs/steps/do/review`, decision), 200).percent, 50);
    assert.deepEqual(await findings(), []);
  });

  it("is erased with the person, whose code of a pool stays used", async () => {
    await game.publish({
      key: "gone",
      stepMode: "PARALLEL",
      steps: [manual("do", { evidence: "TEXT" }), pooled("card")],
    });
    must(await game.post("/quests/gone/steps/card/codes", { codes: ["a"] }), 200);
    must(await submit("gone", "do", { evidence: "about me" }), 200);
    must(await submit("gone", "card", { code: "a" }), 200);
    const players = playersOf(game.api, game.tenant);
    const { tables } = await players.resultOf((await game.make(`/players/${player}/export`, {})).id);
    assert.deepEqual(pluck(tables.quest_submissions, "evidence"), ["about me"]);
    assert.equal(tables.quest_codes.length, 1);
    const job = await game.make(`/players/${player}/erase`, { reason: "asked for" });
    const { rows } = await players.resultOf(job.id);
    assert.deepEqual([rows.quest_submissions, rows.quest_codes], [1, 1]);
    assert.deepEqual(await queue("questId=gone"), []);
    await game.newPlayer();
    assert.equal(must(await submit("gone", "card", { code: "a" }), 200).accepted, false);
  });

  it("is kept for 180 days after the decision, and for as long as it waits", async () => {
    await game.publish({ key: "old", steps: [manual("do", { requiresApproval: true, target: 9 })] });
    for (let n = 0; n < 3; n++) must(await submit("old", "do"), 200);
    for (const decision of ["APPROVE", "REJECT"]) must(await review("old", "do", { decision }), 200);
    const rule = PRUNES.find(({ table }) => table === "quest_submissions")!;
    const left = async (days: number): Promise<unknown[]> => {
      await change(sql`update quest_submissions set submitted_at = now() - ${`${days} days`}::interval,
        closed_at = case when closed_at is null then null else now() - ${`${days} days`}::interval end
        where project_id = ${game.tenant.projectId}`);
      await game.api.app.transact((work) => prune(work, rule, 1_000));
      return (await queue("questId=old")).map(({ status }) => status);
    };
    assert.deepEqual(await left(179), ["APPROVED", "REJECTED", "PENDING"]);
    assert.deepEqual(await left(181), ["PENDING"]);
    assert.equal(must(await review("old", "do", { decision: "APPROVE" }), 200).steps[0].value, 2);
  });

  describe("is withdrawn with its quest", () => {
    const waits = manual("photo", { requiresApproval: true });
    const statuses = async (key: string) => (await queue(`questId=${key}`)).map(({ status }) => status);
    const expired = () => emitted<Json>(game.api.app, game.tenant.projectId, "quest.expired");
    const sweep = () => settleQuests.run(game.api.app, "*");

    it("when it is ended, which is told", async () => {
      await game.publish({ key: "ended", steps: [waits] });
      must(await submit("ended", "photo"), 200);
      must(await game.post("/quests/ended/end"), 200);
      await sweep();
      assert.deepEqual(await statuses("ended"), ["WITHDRAWN"]);
      assert.deepEqual(pluck(await expired(), "questKey", "playerId"), [["ended", player]]);
      assertError(await review("ended", "photo", { decision: "APPROVE" }), 409, "INVALID_STATE");
      assert.deepEqual(await findings(), []);
    });

    it("when it is archived", async () => {
      await game.publish({ key: "archived", steps: [waits] });
      must(await submit("archived", "photo"), 200);
      must(await game.post("/quests/archived/pause"), 200);
      const { tenant, api } = game;
      must(await api.delete("/api/v1/quests/archived", { key: tenant.key }), 200);
      await sweep();
      assert.deepEqual(await statuses("archived"), ["WITHDRAWN"]);
      assert.deepEqual(await findings(), []);
    });

    it("but not where players may finish it after its end", async () => {
      await game.publish({ key: "late", steps: [waits], timeLimitSeconds: 3_600 });
      must(await submit("late", "photo"), 200);
      must(await game.post("/quests/late/end"), 200);
      await sweep();
      await sweep();
      assert.deepEqual(await statuses("late"), ["PENDING"]);
      assert.equal(must(await review("late", "photo", { decision: "APPROVE" }), 200).state, "CLAIMED");
    });
  });

  it("stays when an event is reverted, but for steps that come after the one that is lost", async () => {
    await game.publish({
      key: "mixed",
      steps: [counting("walk", "mixed.walk", 1), manual("photo", { target: 2 }), quiz("quiz")],
      rewards: { xp: 9 },
    });
    await game.publish({
      key: "beside",
      stepMode: "PARALLEL",
      steps: [counting("walk", "mixed.walk", 3), coded("code", ["a"]), manual("photo", { target: 2 })],
    });
    const { eventId } = await game.send("mixed.walk");
    for (const [key, step, body] of [
      ["mixed", "photo", {}],
      ["mixed", "photo", {}],
      ["mixed", "quiz", { answers: RIGHT }],
      ["beside", "code", { code: "a" }],
      ["beside", "photo", {}],
    ] as const)
      must(await submit(key, step, body), 200);
    assert.deepEqual([(await stateOf("mixed"))[0], await game.xp()], ["CLAIMED", 9]);
    const job = must(await game.post(`/events/${eventId}/revert`, { reason: "wrong" }), 200);
    const { left } = await playersOf(game.api, game.tenant).resultOf(job.id);
    assert.deepEqual(left, []);
    assert.equal(await game.xp(), 0);
    const beside = (await game.questOf("beside")).steps.map(({ state, value }: Json) => [state, value]);
    assert.deepEqual(beside, [
      ["ACTIVE", 0],
      ["DONE", 1],
      ["ACTIVE", 1],
    ]);
    assert.deepEqual(await findings(), []);
    await game.send("mixed.walk");
    assert.deepEqual(await stateOf("mixed"), ["IN_PROGRESS", "DONE", "ACTIVE", "LOCKED"]);
  });

  it("is found where the queue and the quest do not agree", async () => {
    await game.publish({ key: "torn", steps: [manual("do", { requiresApproval: true, target: 2 })] });
    must(await submit("torn", "do"), 200);
    must(await submit("torn", "do"), 200);
    assert.deepEqual(await findings(), []);
    const [first] = await queue("questId=torn");
    await change(sql`update quest_submissions set status = 'WITHDRAWN', closed_at = now()
      where project_id = ${game.tenant.projectId} and id = ${first!["id"]}`);
    assert.match((await findings()).join(), /^I15 submission .*WITHDRAWN, but its quest waits for it$/);
  });

  it("is counted in the funnel, and told in the audit log", async () => {
    await game.publish({
      key: "funnel",
      stepMode: "PARALLEL",
      steps: [
        manual("wait", { requiresApproval: true }),
        coded("code", ["a"], { maxAttempts: 1, optional: true }),
        quiz("quiz"),
      ],
    });
    const { submissionId } = must(await submit("funnel", "wait"), 200);
    must(await submit("funnel", "code", { code: "b" }), 200);
    must(await submit("funnel", "quiz", { answers: RIGHT }), 200);
    const { steps } = await game.get("/quests/funnel/stats");
    assert.deepEqual(pluck(steps, "stepKey", "reached", "done", "waiting", "failed"), [
      ["wait", 1, 0, 1, 0],
      ["code", 1, 0, 0, 1],
      ["quiz", 1, 1, 0, 0],
    ]);
    must(await review("funnel", "wait", { decision: "APPROVE" }), 200);
    const lines = await auditOf(game.api, submissionId);
    assert.deepEqual(pluck(lines, "action", "tenant"), [["quest_submission.approved", game.tenant.tenantId]]);
  });

  it("is decided by a submission of its own quest", async () => {
    await game.publish({ key: "own", steps: [manual("do", { requiresApproval: true })] });
    const { submissionId } = must(await submit("own", "do"), 200);
    await game.publish({ key: "other", steps: [manual("do", { requiresApproval: true })] });
    must(await submit("other", "do"), 200);
    assertError(await review("other", "do", { decision: "APPROVE", submissionId }), 404);
  });
});
