import assert from "node:assert/strict";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { startApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aQuestGame, counting } from "../support/quests/quest-game.ts";
import { madeOnce } from "../support/made.ts";

const day = (n: number): string => new Date(Date.UTC(2026, 0, n, 12)).toISOString();
const keysOf = (cycles: readonly Json[]): unknown[] => cycles.map((one) => one["cycleKey"]);

describe("what is shown of a player's quests", () => {
  const game = madeOnce(async () => aQuestGame(await startApp()));
  let player: string;

  beforeEach(async () => {
    player = await game.newPlayer();
  });

  const listed = async (query = ""): Promise<Json[]> =>
    (await game.get(`/players/${player}/quests?${query}`)).data;

  it("is the current cycle, and beside it those that wait to be claimed", async () => {
    const steps = [counting("do", "chores.done", 1)];
    const [repeat, rewards] = [{ mode: "DAILY" }, { xp: 7 }];
    await game.publish({ key: "chores", category: "chores", steps, repeat, claim: "MANUAL", rewards });
    const [one] = await listed("category=chores");
    assert.deepEqual([one!["state"], one!["claimable"]], ["AVAILABLE", []]);
    for (const n of [1, 2, 4]) await game.send("chores.done", { timestamp: day(n) });
    const [today] = await listed("category=chores");
    assert.equal(today!["state"], "AVAILABLE", "what is completed does not hide what can be done today");
    assert.equal(today!["cycleKey"], new Date().toISOString().slice(0, 10));
    assert.deepEqual((today!["claimable"] as Json[])[0], {
      cycleKey: "2026-01-01",
      completedAt: day(1),
      claimUntil: null,
      rewards,
    });
    assert.deepEqual(keysOf(today!["claimable"] as Json[]), ["2026-01-01", "2026-01-02", "2026-01-04"]);
    await game.send("chores.done");
    const done = await game.questOf("chores");
    assert.deepEqual([done.state, done.claimable.length], ["COMPLETED", 4]);
    assert.deepEqual(await listed("claimable=true"), [done]);
    const claimed = must(await game.act("chores", "claim", { cycleKey: "2026-01-02" }), 200);
    assert.deepEqual(
      [claimed.cycleKey, claimed.state, claimed.claimable.length],
      ["2026-01-02", "CLAIMED", 3],
    );
    for (let n = 0; n < 3; n++) must(await game.act("chores", "claim"), 200);
    assert.deepEqual(await listed("claimable=true"), []);
    assert.deepEqual((await listed("claimable=false&category=chores"))[0]!["state"], "CLAIMED");
    assert.equal(await game.xp(), 28);
  });

  it("leaves out what can no longer be claimed", async () => {
    const [repeat, claimWindowSeconds] = [{ mode: "DAILY" }, 3_600];
    const steps = [counting("do", "brief.done", 1)];
    await game.publish({ key: "brief", steps, repeat, claim: "MANUAL", claimWindowSeconds });
    await game.send("brief.done", { timestamp: day(1) });
    const shown = await game.questOf("brief");
    assert.deepEqual([shown.state, shown.claimable], ["AVAILABLE", []]);
    assertError(await game.act("brief", "claim"), 409, "CLAIM_EXPIRED");
  });

  it("is read and claimed by the key of a cycle, under its former name too", async () => {
    const [repeat, steps] = [{ mode: "DAILY" }, [counting("do", "named.done", 1)]];
    await game.publish({ key: "named", steps, repeat, claim: "MANUAL" });
    for (const n of [1, 2]) await game.send("named.done", { timestamp: day(n) });
    for (const name of ["cycleKey", "cycle"]) {
      const found = await game.get(`/players/${player}/quests/named?${name}=2026-01-01`);
      assert.deepEqual([found.cycleKey, found.state], ["2026-01-01", "COMPLETED"]);
    }
    assert.equal((await game.get(`/players/${player}/quests/named?cycleKey=current`)).state, "AVAILABLE");
    for (const [name, cycle] of [
      ["cycleKey", "2026-01-02"],
      ["cycle", "2026-01-01"],
    ] as const)
      assert.equal(must(await game.act("named", "claim", { [name]: cycle }), 200).cycleKey, cycle);
  });

  it("has what a client shows: texts, rewards, and the steps with which it begins", async () => {
    await game.publish({
      key: "tour",
      name: "The tour",
      description: "See the town",
      imageUrl: "https://example.com/tour.png",
      category: "town",
      start: { mode: "MANUAL" },
      steps: [
        counting("walk", "tour.walked", 2, { name: "Walk", description: "Two walks", rewards: { xp: 5 } }),
        { key: "photo", name: "A photo", kind: "MANUAL", evidence: "URL", optional: true },
        counting("rest", "tour.rested", 1, { name: "Rest" }),
      ],
      rewards: { xp: 50 },
      translations: {
        de: { name: "Die Tour", steps: { walk: { name: "Gehen" } } },
        "pt-BR": { description: "Veja a cidade" },
      },
    });
    const shown = await game.questOf("tour");
    const { name, description, imageUrl, category, start, claim, rewards, state } = shown;
    assert.deepEqual(
      [name, description, imageUrl, category, start, claim, rewards, state],
      [
        "The tour",
        "See the town",
        "https://example.com/tour.png",
        "town",
        { mode: "MANUAL" },
        "AUTO",
        { xp: 50 },
        "AVAILABLE",
      ],
    );
    const none = { value: 0, percent: 0, completedAt: null };
    assert.deepEqual(shown.steps, [
      {
        stepKey: "walk",
        kind: "EVENT",
        state: "ACTIVE",
        target: 2,
        ...none,
        name: "Walk",
        description: "Two walks",
        optional: false,
        rewards: { xp: 5 },
      },
      {
        stepKey: "photo",
        kind: "MANUAL",
        state: "LOCKED",
        target: 1,
        ...none,
        name: "A photo",
        description: null,
        optional: true,
        rewards: null,
        evidence: "URL",
      },
      {
        stepKey: "rest",
        kind: "EVENT",
        state: "LOCKED",
        target: 1,
        ...none,
        name: "Rest",
        description: null,
        optional: false,
        rewards: null,
      },
    ]);
    const [same] = await listed("category=town");
    assert.deepEqual(same, shown);
    const begun = must(await game.act("tour", "start"), 200);
    assert.deepEqual(
      [begun.name, begun.steps[0].name, begun.steps[0].rewards],
      ["The tour", "Walk", { xp: 5 }],
    );
  });

  it("is in the language of the player, or a more general one, where there are translations", async () => {
    const texts = async (locale: string): Promise<unknown[]> => {
      must(await game.patch(`/players/${player}`, { locale }), 200);
      const { name, description, steps } = await game.questOf("tour");
      return [name, description, steps[0].name, steps[2].name];
    };
    assert.deepEqual(await texts("de-AT"), ["Die Tour", "See the town", "Gehen", "Rest"]);
    assert.deepEqual(await texts("pt-br"), ["The tour", "Veja a cidade", "Walk", "Rest"]);
    assert.deepEqual(await texts("pt"), ["The tour", "See the town", "Walk", "Rest"]);
    const steps = [counting("a", "a", 1)];
    const wrong = { de: { steps: { b: { name: "B" } } } };
    const answer = await game.post("/quests", { key: "wrong", name: "Wrong", steps, translations: wrong });
    assertError(answer, 400);
    assert.equal(answer.body.error.details[0].field, "translations.de.steps.b");
  });

  it("has no step that can be done while the quest is LOCKED, or was given up", async () => {
    const locked = { all: [{ type: "player_property", field: "xp", op: "gte", value: 5 }] };
    const steps = [counting("a", "later.a", 1), counting("b", "later.b", 1)];
    await game.publish({ key: "later", steps, prerequisites: locked });
    const states = async () => (await game.questOf("later")).steps.map((step: Json) => step["state"]);
    assert.deepEqual(await states(), ["LOCKED", "LOCKED"]);
    must(await game.post(`/players/${player}/xp`, { amount: 5 }), 201);
    assert.deepEqual(await states(), ["ACTIVE", "LOCKED"]);
    must(await game.act("later", "start"), 200);
    must(await game.act("later", "abandon"), 200);
    assert.deepEqual(await states(), ["LOCKED", "LOCKED"]);
    must(await game.act("later", "start"), 200);
    must(await game.act("later", "reset"), 200);
    assert.deepEqual(
      [(await game.questOf("later")).state, ...(await states())],
      ["AVAILABLE", "ACTIVE", "LOCKED"],
    );
  });

  it("names what locks a quest: conditions that do not hold, and those that must not", async () => {
    await game.publish({ key: "first", steps: [counting("a", "first.a", 1)] });
    await game.make("/badges", { key: "staff", name: "Staff" });
    const leaf = (more: object) => ({ type: "progress_state", ...more });
    await game.publish({
      key: "second",
      steps: [counting("a", "second.a", 1)],
      prerequisites: {
        all: [
          leaf({ entity: "quest", key: "first", states: ["COMPLETED", "CLAIMED"] }),
          { type: "player_property", field: "level", op: "gte", value: 1 },
          { any: [{ type: "player_property", field: "xp", op: "gt", value: 10 }] },
          { none: [leaf({ entity: "badge", key: "staff", states: ["NOT_HELD"] })] },
        ],
      },
    });
    const { state, lockedBy } = await game.questOf("second");
    assert.equal(state, "LOCKED");
    assert.deepEqual(lockedBy, [
      {
        path: "prerequisites.all[0]",
        reason: "the quest first must be COMPLETED or CLAIMED, and is AVAILABLE",
        names: [{ kind: "quest", key: "first" }],
      },
      {
        path: "prerequisites.all[2].any[0]",
        reason: "xp must be more than 10, and is 0",
        names: [],
      },
      {
        path: "prerequisites.all[3].none[0]",
        reason: "the badge staff must not be NOT_HELD, and is NOT_HELD",
        names: [{ kind: "badge", key: "staff" }],
      },
    ]);
  });

  it("names the segments of a quest that is not for the player", async () => {
    await game.make("/segments", { key: "vip", name: "VIP", kind: "STATIC" });
    const audience = { segmentKeys: ["vip"], match: "ANY" };
    await game.publish({ key: "for-vip", steps: [counting("a", "vip.a", 1)], audience });
    assert.deepEqual((await game.questOf("for-vip")).lockedBy, [
      {
        path: "audience",
        reason: "it is for players in ANY of the segments vip",
        names: [{ kind: "segment", key: "vip" }],
      },
    ]);
  });
});
