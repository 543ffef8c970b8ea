import assert from "node:assert/strict";
import { readRecap } from "../../src/domain/player-lifecycle/history.ts";
import { getPlayer, identifyPlayer } from "../../src/domain/progression/players/players.ts";
import { memoryDomain } from "../support/domain/domain.ts";

describe("the days of a recap", () => {
  let now: Date;
  const { domain } = memoryDomain(() => now);

  // Laws of 2026 changed the clocks there, of which the embedded database has not heard.
  for (const [timezone, moment, date] of [
    ["Africa/Casablanca", "2026-12-02T23:30:00Z", "2026-12-02"],
    ["America/Vancouver", "2026-12-02T07:30:00Z", "2026-12-02"],
  ] as const)
    it(`are those that this program knows of ${timezone}`, async () => {
      now = new Date(moment);
      const projectId = await domain.addProject();
      const input = { externalUserId: "ada", timezone };
      const { player } = await domain.transact((work) => identifyPlayer(work, projectId, input));
      await domain.grant(projectId, player.id, 5);
      const span = { from: new Date(now.getTime() - 60_000), to: new Date(now.getTime() + 60_000) };
      const { bestDay } = await domain.transact(async (work) =>
        readRecap(work, await getPlayer(work, projectId, player.id), span),
      );
      assert.deepEqual(bestDay, { date, xp: 5 });
    });
});
