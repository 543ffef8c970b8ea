import assert from "node:assert/strict";
import { sql } from "kysely";
import { reconcile } from "../../src/domain/registries/reconcile/reconcile.ts";
import { pruneEnded } from "../../src/jobs/sweeps.ts";
import { settleQuests } from "../../src/jobs/jobs.ts";
import { type Answer, startApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import { playersOf } from "../support/players/players.ts";
import { aQuestGame, counting } from "../support/quests/quest-game.ts";
import { madeOnce } from "../support/made.ts";

const HOUR_MS = 3_600_000;
const assertRefused = (answer: Answer, field: string): void => {
  assert.equal(answer.status, 400, JSON.stringify(answer.body));
  assert.equal(answer.body.error.details[0].field, field);
};

/** Local days of these begin 26 hours apart. */
const [EAST, WEST] = ["Pacific/Kiritimati", "Etc/GMT+12"];

describe("cycles of quests", () => {
  const game = madeOnce(async () => aQuestGame(await startApp()));
  let player: string;

  beforeEach(async () => {
    player = await game.newPlayer();
  });

  const move = async (timezone: string): Promise<void> => {
    must(await game.patch(`/players/${player}`, { timezone }), 200);
  };
  const cycles = async (key: string): Promise<[string, string][]> => {
    const { data } = await game.get(`/quests/${key}/players`);
    return data.map((one: { cycleKey: string; state: string }) => [one.cycleKey, one.state]);
  };

  for (const [claim, gives] of [
    ["AUTO", {}],
    ["MANUAL", { claimWindowSeconds: 3 * 3_600 }],
  ] as const)
    it(`are each had once, however often the player moves to another time zone: ${claim}`, async () => {
      const key = `daily-${claim.toLowerCase()}`;
      await game.publish({
        key,
        steps: [counting("do", key, 1)],
        repeat: { mode: "DAILY" },
        rewards: { xp: 10 },
        claim,
        ...gives,
      });
      const midnight = Math.floor(Date.now() / (24 * HOUR_MS)) * 24 * HOUR_MS;
      const at = (hours: number) => ({ timestamp: new Date(midnight + hours * HOUR_MS).toISOString() });
      for (const [zone, hours] of [
        [EAST, -40],
        [EAST, -37.9],
        [WEST, -35.9],
        [EAST, -33],
        [WEST, -31],
      ] as const) {
        await move(zone);
        await game.send(key, at(hours));
      }
      const had = await cycles(key);
      assert.equal(had.length, new Set(had.map(([cycleKey]) => cycleKey)).size);
      assert.equal(had.length, 2, JSON.stringify(had));
      if (claim === "AUTO") assert.equal(await game.xp(), 20);
    });

  it("have numbers that no earlier cycle has, also after the quest has repeated otherwise", async () => {
    const base = {
      key: "modes",
      steps: [counting("do", "modes.do", 1)],
      rewards: { xp: 1 },
      claim: "MANUAL",
    };
    await game.publish({ ...base, repeat: { mode: "UNLIMITED" } });
    for (let n = 0; n < 2; n++) await game.send("modes.do");
    const change = async (repeat: object): Promise<void> => {
      must(await game.patch("/quests/modes", { repeat }), 200);
      must(await game.post("/quests/modes/publish"), 200);
    };
    await change({ mode: "WEEKLY" });
    await game.send("modes.do", { timestamp: new Date(Date.now() + 1).toISOString() });
    await change({ mode: "UNLIMITED" });
    await game.send("modes.do");
    const had = await cycles("modes");
    assert.deepEqual(new Set(had.map(([, state]) => state)), new Set(["COMPLETED"]));
    assert.equal(new Set(had.map(([cycleKey]) => cycleKey)).size, had.length);
  });

  it("are deleted 400 days after the last change, but for the latest and those that wait", async () => {
    const repeat = { mode: "DAILY", maxCompletions: 5 };
    for (const [key, claim] of [
      ["past", "AUTO"],
      ["waits", "MANUAL"],
    ] as const)
      await game.publish({ key, steps: [counting("do", "past.do", 1)], repeat, claim, rewards: { xp: 10 } });
    const day = (n: number) => ({ timestamp: new Date(Date.UTC(2026, 0, n, 12)).toISOString() });
    const [first] = [await game.send("past.do", day(1)), await game.send("past.do", day(2))];
    await game.send("past.do", day(4));
    must(await game.act("waits", "claim"), 200);
    const { app } = game.api;
    const left = async (days: number) => {
      await app.transact(({ db }) =>
        sql`update player_quests set updated_at = now() - ${`${days} days`}::interval
          where player_id = ${player}`.execute(db),
      );
      await pruneEnded.run(app, "*");
      const keys = async (key: string) =>
        (await cycles(key)).map(([cycleKey]) => cycleKey.slice(-1)).toSorted();
      return [await keys("past"), await keys("waits")];
    };
    assert.deepEqual(await left(399), [
      ["1", "2", "4"],
      ["1", "2", "4"],
    ]);
    assert.deepEqual(await left(401), [["4"], ["2", "4"]]);
    const findings: string[] = [];
    const { projectId } = game.tenant;
    const onFinding = ({ message }: { message: string }) => void findings.push(message);
    await reconcile(app.transact, { projectId, repair: false, onFinding });
    assert.deepEqual(findings, []);
    await game.send("past.do", day(6));
    await game.send("past.do", day(7));
    await game.send("past.do", day(8));
    assert.deepEqual((await cycles("past")).length, 3, "the completions of those that are gone count");
    const xp = await game.xp();
    const job = must(await game.post(`/events/${first.eventId}/revert`, { reason: "wrong" }), 200);
    const { left: named } = await playersOf(game.api, game.tenant).resultOf(job.id);
    assert.match(named.join(), /rewards of quests/, "a revert says that it does not know the cycle");
    assert.equal(await game.xp(), xp);
  });

  it("do not begin for a player who does nothing when the one before is over", async () => {
    const step = { key: "photo", name: "A photo", kind: "MANUAL" };
    const repeat = { mode: "UNLIMITED" };
    await game.publish({ key: "idle", steps: [step], repeat, timeLimitSeconds: 60 });
    assert.equal((await game.questOf("idle")).state, "IN_PROGRESS");
    const { app } = game.api;
    await app.transact(({ db }) =>
      sql`update player_quests set expires_at = now() - interval '1 s', due_at = now() - interval '1 s'
        where player_id = ${player}`.execute(db),
    );
    await settleQuests.run(app, "*");
    assert.deepEqual(await cycles("idle"), [["1", "EXPIRED"]]);
    assert.equal((await game.questOf("idle")).cycleKey, "2", "it begins when somebody looks at it");
  });

  it("without end are not driven by what their own rewards cause", async () => {
    const made = (steps: readonly object[], given: object) =>
      game.post("/quests", {
        key: "endless",
        name: "Endless",
        repeat: { mode: "UNLIMITED" },
        steps,
        ...given,
      });
    const xp = counting("xp", "player.xp_granted", 1);
    for (const [steps, given] of [
      [[xp], { rewards: { xp: 1 } }],
      [[counting("xp", "player.*", 1)], { rewards: { xp: 1 } }],
      [[{ ...xp, rewards: { xp: 1 } }], {}],
      [[xp, counting("other", "other", 1)], { rewards: { xp: 1 }, stepMode: "ANY" }],
    ] as const)
      assertRefused(await made(steps, given), "repeat.mode");
    must(await made([xp, counting("other", "other", 1)], { rewards: { xp: 1 } }), 201);
  });

  it("are not counted under names that every object has", async () => {
    const key = "constructor";
    const steps = [counting(key, "named", 2)];
    assertRefused(await game.post("/quests", { key: "named", name: "Named", steps }), "steps.0.key");
    assertRefused(await game.post("/quests", { key, name: "Named", steps: [counting("a", "a", 1)] }), "key");
  });
});
