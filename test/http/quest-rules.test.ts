import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aQuestGame, counting } from "../support/quests/quest-game.ts";
import { callsOf, madeOnce } from "../support/made.ts";

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
    assert.deepEqual(
      data.map((one: Json) => [one["playerId"], one["percent"]]),
      [[player, 50]],
    );
  });
});
