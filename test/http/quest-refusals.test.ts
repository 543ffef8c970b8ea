import assert from "node:assert/strict";
import { type Answer, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import {
  type AdventureGame,
  anAdventureGame,
  coded,
  counting,
  manual,
  quiz,
} from "../support/quests/quest-game.ts";

const a = counting("a", "said.a", 1);

/** Documents of quests, with the field that is refused and why. */
const QUESTS: readonly (readonly [what: string, more: object, field: string, text: string])[] = [
  ["no steps", { steps: [] }, "steps", "must not be empty"],
  [
    "steps in a circle",
    {
      stepMode: "PARALLEL",
      steps: [
        counting("a", "x", 1, { dependsOn: ["b"] }),
        counting("b", "x", 1, { dependsOn: ["a"] }),
        counting("c", "x", 1, { dependsOn: ["b"] }),
      ],
    },
    "steps",
    "depend on one another in a circle: a → b → a",
  ],
  [
    "an order of steps that has no place",
    { steps: [a, counting("b", "x", 1, { dependsOn: ["a"] })] },
    "steps.1.dependsOn",
    "is only for a stepMode of PARALLEL, and this is SEQUENTIAL",
  ],
  [
    "a schedule of a daily quest",
    { repeat: { mode: "DAILY", cron: "0 0 * * *" } },
    "repeat.cron",
    "is only for a repeat.mode of CRON, and this is DAILY",
  ],
  [
    "a window to claim what is granted at once",
    { claimWindowSeconds: 60 },
    "claimWindowSeconds",
    "is only for a claim of MANUAL, and this is AUTO",
  ],
  [
    "a cost of a start by itself",
    { start: { mode: "AUTO", cost: { currencyKey: "gems", amount: 1 } } },
    "start.cost",
    "is only for a start.mode of MANUAL, and this is AUTO",
  ],
  [
    "prerequisites about events",
    { prerequisites: { all: [{ type: "event_count", eventTypes: ["x"] }] } },
    "prerequisites.all.0.type",
    "must be one of player_property, streak, progress_state, leaderboard_rank, segment, time_window: " +
      "prerequisites are about the player",
  ],
  [
    "an image that is not of https",
    { imageUrl: "http://x.y/z.png" },
    "imageUrl",
    "must be an address of https",
  ],
];

describe("refusals of quests and adventures", () => {
  let game: AdventureGame;

  before(async () => {
    game = await anAdventureGame(await startApp());
    await game.newPlayer();
  });

  const refused = ({ status, body }: Answer): string => {
    assert.ok(status >= 400, JSON.stringify(body));
    return body.error.message;
  };
  const acted = async (key: string, what: string, body: unknown = {}): Promise<string> =>
    refused(await game.act(key, what, body));

  for (const [what, more, field, text] of QUESTS)
    it(`say what is wrong with ${what}, and where, and nothing else`, async () => {
      const { status, body } = await game.post("/quests", { key: "bad", name: "Bad", steps: [a], ...more });
      assert.equal(status, 400);
      assert.deepEqual(body.error.details, [{ field, message: text }]);
    });

  it("say in which status a quest can be moved", async () => {
    await game.publish({ key: "moved", steps: [a] });
    assert.match(
      refused(await game.post("/quests/moved/resume")),
      /ACTIVE; only one that is PAUSED can be resumed/,
    );
    const archived = await game.api.delete("/api/v1/quests/moved", { key: game.tenant.key });
    assert.match(refused(archived), /the quest is ACTIVE; pause or end it first/);
    await game.make("/quests", { key: "draft", name: "Draft", steps: [a] });
    assert.match(
      refused(await game.post("/quests/draft/pause")),
      /only one that is ACTIVE or SCHEDULED can be/,
    );
    const prerequisites = {
      all: [{ type: "progress_state", entity: "quest", key: "draft", states: ["CLAIMED"] }],
    };
    await game.make("/quests", { key: "after", name: "After", steps: [a], prerequisites });
    assert.match(refused(await game.post("/quests/after/publish")), /there is no published quest draft/);
  });

  it("say why a quest cannot be started now", async () => {
    const steps = [counting("a", "why.a", 1)];
    const start = { mode: "MANUAL" };
    await game.publish({ key: "once", steps, start });
    must(await game.act("once", "start"), 200);
    assert.match(await acted("once", "start"), /in progress already/);
    await game.send("why.a");
    assert.match(await acted("once", "start"), /is CLAIMED, and can be done once/);
    await game.publish({ key: "rests", steps, start, repeat: { mode: "UNLIMITED", cooldownSeconds: 600 } });
    must(await game.act("rests", "complete"), 200);
    assert.match(await acted("rests", "start"), /again at \d{4}-.*Z, after its cooldown/);
    await game.publish({ key: "twice", steps, start, repeat: { mode: "UNLIMITED", maxCompletions: 1 } });
    must(await game.act("twice", "complete"), 200);
    assert.match(await acted("twice", "start"), /completed it 1 times, and it can be done 1 times/);
    await game.publish({ key: "daily", steps, start, repeat: { mode: "DAILY" } });
    must(await game.act("daily", "complete"), 200);
    assert.match(await acted("daily", "start"), /its cycle .* is CLAIMED; the next one begins at \d{4}-/);
    const availableFrom = new Date(Date.now() + 3_600_000).toISOString();
    await game.publish({ key: "soon", steps, start, availableFrom });
    assert.ok((await acted("soon", "start")).includes(`the quest begins at ${availableFrom}`));
    must(await game.post("/quests/soon/end"), 200);
    assert.match(await acted("soon", "start"), /the quest is over/);
    must(await game.post("/quests/rests/pause"), 200);
    assert.match(await acted("rests", "start"), /the quest is PAUSED/);
    const level = { type: "player_property", field: "level", op: "gte", value: 9 };
    await game.publish({ key: "high", steps, start, prerequisites: { all: [level] } });
    assert.match(await acted("high", "start"), /LOCKED for the player: level must be at least 9, and is 1/);
  });

  it("say what a step takes, and why it takes nothing now", async () => {
    await game.publish({
      key: "takes",
      stepMode: "PARALLEL",
      steps: [
        coded("code", ["a"], { maxAttempts: 1, optional: true }),
        quiz("quiz"),
        manual("text", { evidence: "TEXT" }),
        manual("do", {}),
        counting("walk", "walked", 1),
      ],
    });
    const submit = (step: string, body: object = {}) => acted("takes", `steps/${step}/submit`, body);
    assert.match(
      await submit("code", { evidence: "x" }),
      /evidence: is not for a step of kind CODE, which takes code/,
    );
    assert.match(await submit("code"), /code: is needed for a step of kind CODE/);
    assert.match(await submit("quiz", { answers: { nope: [1] } }), /no such question; there are/);
    assert.match(await submit("text"), /evidence: is needed for this step: a text/);
    assert.match(await submit("nope"), /step nope not found/);
    must(await game.act("takes", "steps/code/submit", { code: "b" }), 200);
    assert.match(await submit("code", { code: "a" }), /FAILED: no attempts are left in this cycle/);
    must(await game.act("takes", "steps/do/submit"), 200);
    assert.match(await submit("do"), /DONE: it is done once in a cycle/);
    for (const body of [{}, { amount: 1, set: 1 }])
      assert.match(await acted("takes", "steps/walk/progress", body), /give amount or set/);
    assert.match(
      await acted("takes", "claim", { cycleKey: "2026-01-01" }),
      /the cycle 2026-01-01 .* nothing to claim/,
    );
    assert.match(await acted("takes", "claim"), /not completed: it is IN_PROGRESS/);
  });

  it("say what an adventure waits for", async () => {
    await game.quests("w-1", "w-2");
    const items = [
      { questKey: "w-1", order: 1, unlock: { mode: "AFTER_QUESTS", questKeys: ["w-2"] } },
      { questKey: "w-2", order: 2, unlock: { mode: "AFTER_PREVIOUS" } },
    ];
    const times = { startsAt: "2026-01-01T00:00:00Z", endsAt: "2126-01-01T00:00:00Z" };
    const circle = await game.post("/adventures", { key: "circle", name: "Circle", ...times, items });
    assert.match(refused(circle), /items.0.unlock: can never be unlocked: it waits for w-2, which can never/);
    const none = await game.post("/adventures", { key: "none", name: "None", ...times, items: [] });
    assert.deepEqual(none.body.error.details, [{ field: "items", message: "must not be empty" }]);
    await game.publishAdventure({
      key: "said",
      join: "MANUAL",
      claim: "MANUAL",
      items: [{ questKey: "w-1", order: 1, points: 10 }],
      tiers: [{ tier: 1, points: 10, free: { xp: 1 } }],
    });
    assert.match(refused(await game.onAdventure("said", "claim")), /not completed: it is not joined/);
    const early = await game.onAdventure("said", "tiers/1/claim", { track: "FREE" });
    assert.match(refused(early), /tier 1 is not reached: it needs 10 points, and the player has 0/);
    must(await game.post("/adventures/said/pause"), 200);
    assert.match(refused(await game.onAdventure("said", "join")), /the adventure is paused/);
  });
});
