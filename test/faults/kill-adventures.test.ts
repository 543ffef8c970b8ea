import assert from "node:assert/strict";
import { sql } from "kysely";
import { assertInvariants } from "../support/domain/invariants.ts";
import { EVENTS, PLAYERS, startKilledWorker } from "../support/faults/killed-worker.ts";
import { must } from "../support/http/client.ts";
import { aSeason } from "../support/quests/adventure-game.ts";
import { counting } from "../support/quests/quest-game.ts";
import { seeded } from "../support/seed.ts";
import { ownServices } from "../support/processes/own-services.ts";

describe("kill -9 of a worker while players are in an adventure", () => {
  const random = seeded();
  const own = ownServices();

  it("counts each point once, and gives each tier once, of events that come twice", async () => {
    const { post, get, count, playUnderKills, stop } = await startKilledWorker(own, random);
    const quests = [
      { key: "thrice", steps: [counting("three", "done", 3)], repeat: { mode: "UNLIMITED" } },
      { key: "after", steps: [counting("ten", "done", 10)] },
    ];
    for (const quest of quests) {
      must(await post("/quests", { name: quest.key, ...quest }), 201);
      must(await post(`/quests/${quest.key}/publish`), 200);
    }
    const cycles = Math.floor(EVENTS / 3);
    const points = 3 * cycles + 5 + EVENTS / 2;
    const adventure = {
      key: "season",
      name: "Season",
      ...aSeason(),
      items: [
        { questKey: "thrice", order: 1, points: 3 },
        { questKey: "after", order: 2, points: 5, unlock: { mode: "AFTER_PREVIOUS" } },
      ],
      pointsFrom: [{ metric: { eventTypes: ["done"], aggregate: "count" }, pointsPerUnit: 0.5 }],
      tiers: [1, 2, 3, 4].map((tier) => ({
        tier,
        points: Math.floor((tier * points) / 4),
        free: { xp: 10 ** (tier - 1) },
        premium: { xp: 1 },
      })),
      rewards: { xp: 10_000 },
    };
    must(await post("/adventures", adventure), 201);
    must(await post("/adventures/season/publish"), 200);
    await playUnderKills("/adventures/season");

    assert.equal(await count(sql`tracked_events`), PLAYERS * EVENTS);
    for (let i = 0; i < PLAYERS; i++) {
      const player = await get(`/players/ext:player-${i}`);
      const { state, points: reached, items } = await get(`/players/ext:player-${i}/adventures/season`);
      const times = items.map(({ completions }: { completions: number }) => completions);
      assert.deepEqual(
        [state, reached, times, player.xp],
        ["CLAIMED", points, [cycles, 1], 11_111],
        `player ${i}`,
      );
    }
    const kinds = ["started", "completed"].map((kind) => `adventure.${kind}`);
    for (const type of kinds) assert.equal(await count(sql`outbox where type = ${type}`), PLAYERS);
    assert.equal(await count(sql`outbox where type = 'adventure.tier_reached'`), PLAYERS * 4);
    await assertInvariants(own.database.em);
    await stop();
  });
});
