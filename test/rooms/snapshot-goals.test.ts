import assert from "node:assert/strict";
import { GOALS_BYTES_MAX } from "../../src/domain/economy/adventures/change-adventures.ts";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { anAdventureGame, aQuestGame, counting } from "../support/quests/quest-game.ts";
import { join } from "../support/rooms/sdk.ts";
import { madeOnce } from "../support/made.ts";

const MANY = 12;
const STEPS = 50;

describe("the state that a client is shown first", () => {
  const api = madeOnce(startApp);
  const game = madeOnce(() => anAdventureGame(api));
  let player: string;

  before(async () => {
    await game.quests("one", "two");
    const step = counting("do", "long.done", 9, { name: "A step" });
    await game.publish({ key: "long", steps: [step], rewards: { xp: 5 } });
    await game.publishAdventure({
      key: "season",
      items: [
        { questKey: "one", order: 1, points: 10 },
        { questKey: "two", order: 2, points: 10, unlock: { mode: "AFTER_PREVIOUS" } },
      ],
    });
  });
  beforeEach(async () => {
    player = await game.newPlayer();
  });

  it("has the player's quests and adventures, begun ones before others", async () => {
    await game.send("one.done");
    const { body } = await api.post("/api/v1/auth/ws-token", { playerId: player }, { key: game.tenant.key });
    const me = await join(api, body.token, "player", { lastSeq: 9_999 });
    const [snapshot] = await eventually(() => {
      const found = me.named("state.snapshot");
      return found.length > 0 && found;
    });
    const { data } = snapshot!;
    const shown = await game.get(`/players/${player}?include=quests,adventures`);
    const byKey = <T extends Json>(all: T[], name: string) =>
      all.toSorted((a, b) => (String(a[name]) < String(b[name]) ? -1 : 1));
    assert.deepEqual(byKey(data.player.quests, "questKey"), byKey(shown.quests, "questKey"));
    assert.deepEqual(byKey(data.player.adventures, "adventureKey"), byKey(shown.adventures, "adventureKey"));
    assert.equal(data.player.quests[0].questKey, "one");
    assert.equal(data.player.adventures[0].adventureKey, "season");
    assert.equal(data.truncated, undefined);
    await me.room.leave();
  });

  it("has the texts of quests, as the first line about one that begins; later ones do not", async () => {
    const { body } = await api.post("/api/v1/auth/ws-token", { playerId: player }, { key: game.tenant.key });
    const me = await join(api, body.token, "player", { lastSeq: 9_999 });
    await eventually(() => me.named("state.snapshot").length > 0);
    const { quests } = me.named("state.snapshot")[0]!.data.player;
    const long = quests.find((one: Json) => one["questKey"] === "long");
    assert.deepEqual([long.steps[0].name, long.rewards], ["A step", { xp: 5 }]);
    await game.send("long.done");
    await game.send("long.done");
    const lines = await eventually(() => {
      const found = me.named("quest.updated").filter(({ data }) => data.quest.questKey === "long");
      return found.length === 2 && found;
    });
    assert.deepEqual(
      lines.map(({ data }) => [data.change, data.quest.steps[0].name, data.quest.rewards]),
      [
        ["STARTED", "A step", { xp: 5 }],
        ["PROGRESS", undefined, undefined],
      ],
    );
    await me.room.leave();
  });

  it("is followed by one line about an adventure for each event", async () => {
    const { body } = await api.post("/api/v1/auth/ws-token", { playerId: player }, { key: game.tenant.key });
    const me = await join(api, body.token, "player");
    await eventually(() => me.heard.length >= 2);
    await game.send("one.done");
    await game.send("two.done");
    const updates = () => me.heard.filter(({ name }) => name === "adventure.updated");
    await eventually(() => updates().length >= 2);
    assert.deepEqual(
      updates().map(({ data }) => [data.change, data.adventure.state, data.adventure.points]),
      [
        ["STARTED", "IN_PROGRESS", 10],
        ["CLAIMED", "CLAIMED", 20],
      ],
    );
    await me.room.leave();
  });

  it("has as many quests as have room, begun ones before others, and says so", async () => {
    const long = await aQuestGame(api);
    const steps = (type: string) =>
      Array.from({ length: STEPS }, (_, i) => counting(`a-step-of-a-long-quest-number-${i}`, type, 2));
    for (let i = 0; i < MANY; i++)
      await long.publish({ key: `quest-${i}`, sortOrder: i, steps: steps(`sent-${i}`) });
    const playerId = await long.newPlayer();
    const last = MANY - 1;
    await long.send(`sent-${last}`);
    const { body } = await api.post("/api/v1/auth/ws-token", { playerId }, { key: long.tenant.key });
    const me = await join(api, body.token, "player");
    const [snapshot] = await eventually(() => {
      const found = me.named("state.snapshot");
      return found.length > 0 && found;
    });
    const { data } = snapshot!;
    const { quests } = data.player;
    assert.deepEqual([quests[0].questKey, quests[0].state], [`quest-${last}`, "IN_PROGRESS"]);
    assert.equal(quests[1].questKey, "quest-0");
    assert.ok(quests.length < MANY);
    assert.ok(JSON.stringify(quests).length < 1.1 * GOALS_BYTES_MAX);
    assert.equal(data.truncated, true);
    await me.room.leave();
  });
});
