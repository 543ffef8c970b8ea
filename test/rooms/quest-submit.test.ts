import assert from "node:assert/strict";
import { startApp, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { aQuestGame, coded, manual, type QuestGame, quiz, RIGHT } from "../support/quests/quest-game.ts";
import { aPlayer, join } from "../support/rooms/sdk.ts";
import { pluck } from "../support/pluck.ts";

describe("steps of quests in room player", () => {
  let api: TestApp;
  let game: QuestGame;
  before(async () => {
    api = await startApp();
    game = await aQuestGame(api);
    await game.publish({
      key: "trail",
      steps: [manual("arrive"), coded("sign", ["oak"], { maxAttempts: 9 }), quiz("quiz")],
      rewards: { xp: 10 },
    });
  });

  const open = async () => {
    const { token, playerId } = await aPlayer(api, game.tenant.key);
    const me = await join(api, token, "player");
    const submit = (step: string, body: object = {}) =>
      me.room.request("quest.submit", { quest: "trail", step, ...body });
    return { me, playerId, submit };
  };

  it("are submitted by the player alone to whom the room belongs, and told to their sessions", async () => {
    const [{ me, playerId, submit }, other] = [await open(), await open()];
    assert.equal((await submit("arrive")).accepted, true);
    const wrong = await submit("sign", { code: "elm" });
    assert.deepEqual([wrong.accepted, wrong.attemptsLeft], [false, 8]);
    assert.equal((await submit("sign", { code: " OAK" })).accepted, true);
    const passed = await submit("quiz", { answers: RIGHT });
    assert.deepEqual([passed.score, passed.playerQuest.state], [100, "CLAIMED"]);
    await eventually(() => me.named("quest.updated").some(({ data }) => data.change === "CLAIMED"));
    const changes = me.named("quest.updated").map(({ data }) => data.change);
    assert.ok(changes.includes("STEP_COMPLETED") && changes.includes("PROGRESS"), changes.join());
    assert.equal((await game.get(`/players/${playerId}`)).xp, 10);
    assert.equal((await game.get(`/players/${other.playerId}`)).xp, 0);
    assert.deepEqual(
      other.me.named("quest.updated").filter(({ data }) => data.quest.state !== "IN_PROGRESS"),
      [],
    );
    for (const { room } of [me, other.me]) await room.leave();
  });

  it("are told to their player when somebody has decided about them, with the note", async () => {
    const step = manual("photo", { requiresApproval: true, evidence: "TEXT" });
    await game.publish({ key: "album", steps: [step], rewards: { xp: 5 } });
    const [{ me, playerId }, other] = [await open(), await open()];
    const told: unknown[] = [];
    for (const [decision, note] of [
      ["REJECT", "Too dark"],
      ["APPROVE", undefined],
    ] as const) {
      const request = { quest: "album", step: "photo", evidence: "see" };
      const { submissionId, playerQuest } = await me.room.request("quest.submit", request);
      const path = `/players/${playerId}/quests/album/steps/photo/review`;
      must(await game.post(path, { decision, note }), 200);
      const { questKey, questId, id: playerQuestId, cycleKey } = playerQuest;
      const stepKey = "photo";
      told.push({ playerQuestId, questKey, cycleKey, questId, stepKey, submissionId, note: note ?? null });
    }
    const names = ["quest.submission_rejected", "quest.submission_approved"];
    const heard = await eventually(() => {
      const found = me.heard.filter(({ name }) => names.includes(name));
      return found.length === 2 && found;
    });
    assert.deepEqual(pluck(heard, "name"), names);
    assert.deepEqual(pluck(heard, "data"), told);
    assert.deepEqual(
      other.me.heard.filter(({ name }) => names.includes(name)),
      [],
    );
    for (const { room } of [me, other.me]) await room.leave();
  });

  it("count once for an idempotency key, however often they come with it", async () => {
    const { me, playerId, submit } = await open();
    await submit("arrive");
    const wrong = { code: "elm", idempotencyKey: "try-1" };
    const first = await submit("sign", wrong);
    assert.deepEqual([first.accepted, first.attemptsLeft], [false, 8]);
    for (let n = 0; n < 3; n++) assert.deepEqual(await submit("sign", wrong), first);
    const right = { code: "oak", idempotencyKey: "try-2" };
    const answers = await Promise.allSettled([1, 2, 3].map(() => submit("sign", right)));
    const accepted = answers.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    assert.ok(accepted.length >= 1);
    for (const one of [...accepted, await submit("sign", right)])
      assert.deepEqual([one.accepted, one.attemptsLeft], [true, 7]);
    for (const [body, what] of [
      [{ code: "ash", idempotencyKey: "try-2" }, /IDEMPOTENCY_KEY_REUSED/],
      [{ code: "ash", idempotencyKey: "a b" }, /VALIDATION_ERROR/],
      [{ code: "ash", idempotencyKey: "x".repeat(256) }, /VALIDATION_ERROR/],
    ] as const)
      await assert.rejects(submit("sign", body), (error) => what.test(JSON.stringify(error)));
    const other = await open();
    await other.submit("arrive");
    assert.equal(
      (await other.submit("sign", right)).playerQuest.steps[1].state,
      "DONE",
      "it is another's key",
    );
    assert.equal((await game.get(`/players/${playerId}/quests/trail`)).steps[1].state, "DONE");
    for (const { room } of [me, other.me]) await room.leave();
  });
});
