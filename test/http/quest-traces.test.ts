import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { aQuestGame, counting } from "../support/quests/quest-game.ts";
import { madeOnce } from "../support/made.ts";

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
