import assert from "node:assert/strict";
import { sql } from "kysely";
import { assertInvariants } from "../support/domain/invariants.ts";
import { EVENTS, PLAYERS, PUBLISHED_ANEW, startKilledWorker } from "../support/faults/killed-worker.ts";
import { must } from "../support/http/client.ts";
import { counting } from "../support/quests/quest-game.ts";
import { seeded } from "../support/seed.ts";
import { ownServices } from "../support/processes/own-services.ts";

describe("kill -9 of a worker while players do quests", () => {
  const random = seeded();
  const own = ownServices();

  it("gives the rewards of each cycle once, of events that come twice, while versions change", async () => {
    const { post, get, count, playUnderKills, stop } = await startKilledWorker(own, random);
    const quest = {
      key: "thrice",
      name: "Thrice",
      steps: [counting("three", "done", 3, { rewards: { xp: 1 } })],
      repeat: { mode: "UNLIMITED" },
      onVersionChange: "CARRY_OVER",
      rewards: { xp: 2 },
    };
    must(await post("/quests", quest), 201);
    must(await post("/quests/thrice/publish"), 200);
    await playUnderKills("/quests/thrice");

    const cycles = Math.floor(EVENTS / 3);
    for (let i = 0; i < PLAYERS; i++) {
      const { xp } = await get(`/players/ext:player-${i}`);
      assert.equal(xp, cycles * 3, `player ${i}`);
    }
    assert.equal(await count(sql`tracked_events`), PLAYERS * EVENTS);
    assert.equal(await count(sql`player_quests where state = 'CLAIMED'`), PLAYERS * cycles);
    assert.equal(await count(sql`player_quests where state = 'IN_PROGRESS'`), EVENTS % 3 === 0 ? 0 : PLAYERS);
    assert.equal(await count(sql`definition_versions`), 1 + PUBLISHED_ANEW);
    await assertInvariants(own.database.em);
    await stop();
  });
});
