import assert from "node:assert/strict";
import { sql } from "kysely";
import { aTenant } from "../support/app/app.ts";
import { assertInvariants } from "../support/domain/invariants.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { holdLedger } from "../support/processes/held-ledger.ts";
import { counting } from "../support/quests/quest-game.ts";
import { ownWeb } from "../support/processes/own-services.ts";

/** Several steps of a job. */
const PLAYERS = 160;
/** Each in another step. */
const KILLS = 2;
/** Of events before the quest and behind it, that of a player with number `i`. */
const earlier = (i: number): number => i % 5;
const later = (i: number): number => i % 3;
const TARGET = 4;
const STEP_XP = 10;
const QUEST_XP = 100;

describe("kill -9 of a worker in the midst of the backfill of a quest", () => {
  const own = ownWeb({ poolMax: 4 });

  const isIdle = async (): Promise<boolean> =>
    (await own.numberOf(sql`select count(*) as n from event_q`)) === 0;
  const quests = () => own.numberOf(sql`select count(*) as n from player_quests`);

  it("counts what each player did and gives the rewards once, with events that come meanwhile", async () => {
    const { api } = own;
    const { key } = await aTenant(api);
    const post = (path: string, body: unknown = {}) => api.post(`/api/v1${path}`, body, { key });
    const send = async (times: (i: number) => number): Promise<void> => {
      const all = Array.from({ length: PLAYERS }, (_, i) => i).flatMap((i) =>
        Array.from({ length: times(i) }, () => ({ externalUserId: `player-${i}`, eventType: "done" })),
      );
      for (let at = 0; at < all.length; at += 100)
        must(await post("/events/batch", { events: all.slice(at, at + 100) }), 200);
    };
    const worker = own.startWorker();
    await send((i) => earlier(i) + 1);
    await eventually(isIdle, { timeoutMs: 60_000 });

    const steps = [
      counting("first", "done", 1, { countFrom: "LIFETIME", rewards: { xp: STEP_XP } }),
      counting("all", "done", TARGET, { countFrom: "LIFETIME" }),
    ];
    must(await post("/quests", { key: "veteran", name: "Veteran", steps, rewards: { xp: QUEST_XP } }), 201);
    const ledger = await holdLedger(own.database);
    let id = "";
    try {
      ({ backfillJobId: id } = must(await post("/quests/veteran/publish", { backfill: true }), 200) as {
        backfillJobId: string;
      });
      let saved = -1;
      for (let kills = 0; kills < KILLS; kills++) {
        await ledger.someWaiting("WORKER");
        const known = await quests();
        assert.ok(known > saved, `${known} quests after ${kills} kills`);
        saved = known;
        await ledger.killAtSave(worker, id);
        await ledger.someWaiting("WORKER");
        assert.equal(await quests(), saved, "nothing of a step that has died");
        await ledger.letOneThrough();
      }
      await send(later);
    } finally {
      await ledger.release();
    }
    const statusOf = async () => must(await api.get(`/api/v1/jobs/${id}`, { key }), 200).status;
    await eventually(async () => (await statusOf()) === "SUCCEEDED", { timeoutMs: 120_000 });
    await eventually(isIdle, { timeoutMs: 60_000 });
    for (let i = 0; i < PLAYERS; i++) {
      const { xp } = must(await api.get(`/api/v1/players/ext:player-${i}`, { key }), 200);
      const isComplete = earlier(i) + 1 + later(i) >= TARGET;
      assert.equal(xp, STEP_XP + (isComplete ? QUEST_XP : 0), `player ${i}`);
    }
    assert.equal(await quests(), PLAYERS);
    await assertInvariants(own.database.em);
  });
});
