import assert from "node:assert/strict";
import { relayPartitions } from "../../src/domain/delivery/outbox/relay.ts";
import { ranksPart, stampIdsBy } from "../../src/domain/kernel/ids.ts";
import { readEntries } from "../../src/domain/leaderboards/entries.ts";
import { ALL_PARTS, openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";

describe("changes of boards that wait for the rank index", () => {
  let laterMs = 0;
  const database = madeOnce(openMemoryDatabase);
  const domain = madeOnce(() => openDomain(database, () => new Date(Date.now() + laterMs)));
  after(async () => {
    stampIdsBy(() => Date.now());
    await database.close();
  });

  const waitingParts = async (projectId: string): Promise<number[]> => {
    const rows = await domain.sql<{ part: number }>`
      select distinct part from outbox_q where project_id = ${projectId}::uuid`;
    return rows.map(({ part }) => part);
  };

  it("send no notices for a window that was over when its first score came", async () => {
    const projectId = await domain.addProject();
    const metric = { source: "EVENT", event: { eventTypes: ["goal"] }, aggregate: "count" };
    await domain.addBoard(projectId, { key: "weekly", name: "W", metric, period: { kind: "WEEKLY" } });
    const noticesAfter = async (at: Date): Promise<number> => {
      await domain.track(projectId, [{ user: "ada", at }]);
      await domain.process();
      await domain.relay();
      const rows = await domain.sql`select from leaderboard_notices where project_id = ${projectId}::uuid`;
      return rows.length;
    };
    assert.equal(await noticesAfter(new Date("2024-01-10T12:00:00Z")), 0);
    assert.equal(await noticesAfter(new Date()), 1);
  });

  it("keep no line of a player from going out, and pages say how old they are", async () => {
    const projectId = await domain.addProject();
    await domain.addBoard(projectId, { key: "xp", name: "XP", metric: { source: "XP" } });
    const page = () => readEntries(domain, projectId, "xp", {}).then(({ value }) => value);
    const playerId = await domain.addPlayer(projectId, "ada");
    await domain.relay();
    assert.equal((await page()).behindSeconds, 0);
    await domain.grant(projectId, playerId, 10);
    laterMs = 60_000;
    stampIdsBy(() => Date.now() + laterMs);
    const behind = (await page()).behindSeconds;
    assert.ok(behind !== null && behind >= 60, String(behind));
    const away = { ...domain.ranks, apply: () => Promise.reject(new Error("the index is away")) };
    await assert.rejects(relayPartitions({ ...domain, ranks: away }, ALL_PARTS), /the index is away/);
    assert.deepEqual(await waitingParts(projectId), [ranksPart(projectId)]);
    await domain.relay();
    const { behindSeconds, data } = await page();
    assert.deepEqual([behindSeconds, data[0]?.score], [0, 10]);
  });
});
