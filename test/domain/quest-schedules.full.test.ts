import assert from "node:assert/strict";
import { readTurn, shownQuests } from "../../src/domain/economy/quests/player-quests.ts";
import { cycleAt } from "../../src/domain/evaluation/quests/context.ts";
import { getPlayer } from "../../src/domain/progression/players/players.ts";
import { define } from "../support/domain/rule-projects.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

const AT = Date.UTC(2026, 5, 1, 12);
const cronOf = (i: number): string => `${i % 60} ${Math.floor(i / 60)} 29 2 *`;
const cycleOf = (i: number, zone: string) =>
  cycleAt({ mode: "CRON", cron: cronOf(i), timezone: "PLAYER" }, zone, AT);

describe("schedules of quests", () => {
  const { domain } = memoryDomain();

  it("are searched once in each zone, however many other zones and quests there are", () => {
    const first = cycleOf(0, "Europe/Oslo");
    assert.deepEqual(
      [first.key, new Date(first.endMs).toISOString()],
      ["2024-02-28T23:00:00.000Z", "2028-02-28T23:00:00.000Z"],
    );
    for (const zone of ["UTC", "Asia/Tokyo", "Africa/Lagos", "America/Lima", "Asia/Kathmandu"])
      for (let i = 0; i < 500; i++) cycleOf(i, zone);
    assert(cycleOf(0, "Europe/Oslo") === first);
    const later = cycleAt({ mode: "CRON", cron: cronOf(0), timezone: "PLAYER" }, "Europe/Oslo", first.endMs);
    assert.equal(later.startMs, first.endMs, "the next cycle begins where one ends");
  });

  it("hold up nobody else while quests of many are listed", async () => {
    const projectId = await domain.addProject();
    for (let i = 0; i < 300; i++)
      await define(domain, projectId, "quest", {
        key: `q${i}`,
        name: "A quest",
        repeat: { mode: "CRON", cron: cronOf(i) },
        steps: [
          {
            key: "a",
            name: "A",
            kind: "EVENT",
            metric: { eventTypes: ["a"], aggregate: "count" },
            target: 1,
          },
        ],
      });
    const playerId = await domain.addPlayer(projectId, "ada");
    await domain.transact(async (work) => {
      const player = await getPlayer(work, projectId, playerId);
      player.timezone = "Pacific/Auckland";
      const turn = await readTurn(work, player);
      let others = 0;
      const timer = setInterval(() => void others++, 1);
      const listed = await shownQuests(turn);
      clearInterval(timer);
      assert.equal(listed.length, 300);
      assert(others > 2, `others were served ${others} times`);
    });
  });
});
