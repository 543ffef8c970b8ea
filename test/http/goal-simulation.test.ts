import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { madeOnce } from "../support/made.ts";

const questOf = (key: string, eventType: string) => ({
  key,
  name: key,
  steps: [
    {
      key: "do",
      name: "Do",
      kind: "EVENT",
      target: 2,
      metric: { eventTypes: [eventType], aggregate: "count" },
    },
  ],
});

describe("simulation of quests and adventures", () => {
  let key: string;
  const api = madeOnce(startApp);
  before(async () => {
    ({ key } = await aTenant(api));
    const season = {
      key: "season",
      name: "Season",
      startsAt: "2026-01-01T00:00:00Z",
      endsAt: "2126-01-01T00:00:00Z",
      items: [{ questKey: "lessons", order: 1, points: 10 }],
      tiers: [{ tier: 1, points: 10, free: { xp: 5 } }],
    };
    for (const [plural, document] of [
      ["quests", questOf("lessons", "lesson.done")],
      ["quests", questOf("walks", "walk.done")],
      ["adventures", season],
    ] as const) {
      assert.equal((await api.post(`/${plural}`, document, { key })).status, 201);
      assert.equal((await api.post(`/${plural}/${document.key}/publish`, {}, { key })).status, 200);
    }
  });
  const simulate = async (player: object) => {
    const body = { event: { eventType: "lesson.done" }, player };
    return (await api.post("/rules/simulate", body, { key })).body.resultingState;
  };
  const quest = (state: string, percent: number, value: number) => ({
    lessons: { cycleKey: "once", state, percent, steps: { do: value } },
  });

  it("shows the quest that an event would begin, and the adventure that it would join", async () => {
    const { changed, before, after } = await simulate({ snapshot: {} });
    assert.deepEqual(changed, ["quests", "adventures"]);
    assert.deepEqual(before, { quests: {}, adventures: {} });
    assert.deepEqual(after.quests, quest("IN_PROGRESS", 50, 1));
    assert.deepEqual(after.adventures, { season: { state: "IN_PROGRESS", points: 0, tiers: [] } });
  });

  it("shows what an event would complete beside where the player stands, and changes nothing", async () => {
    for (const eventType of ["lesson.done", "walk.done"])
      await api.post("/events?wait=true", { externalUserId: "uma", eventType }, { key });
    const { before, after } = await simulate({ externalUserId: "uma" });
    assert.deepEqual(before.quests, quest("IN_PROGRESS", 50, 1));
    assert.deepEqual(after.quests, quest("CLAIMED", 100, 2));
    assert.deepEqual(after.adventures.season, { state: "CLAIMED", points: 10, tiers: [1] });
    const { body } = await api.get("/players/ext:uma/quests/lessons", { key });
    assert.deepEqual([body.state, body.percent], ["IN_PROGRESS", 50]);
  });
});
