import assert from "node:assert/strict";
import fc from "fast-check";
import { revertEvents } from "../../src/domain/revert/revert-events.ts";
import { define, findingsOf, memoryDomain } from "../support/domain/domain.ts";
import { aHistoryProject, HOW, play, takeBack } from "../support/reverts/histories.ts";
import { cases } from "../support/properties.ts";

const DAY_MS = 86_400_000;

describe("a period of a streak for which several events count", () => {
  const { domain } = memoryDomain();
  let projectId: string;

  before(async () => {
    projectId = await aHistoryProject(domain, { badges: [], boards: [] });
    await defineStreak();
  });

  const defineStreak = (): Promise<void> =>
    define(domain, projectId, "streak", {
      key: "daily",
      name: "Daily",
      qualify: {
        mode: "ALL",
        parts: [{ metric: { eventTypes: ["won"], aggregate: "count" }, threshold: 1 }],
      },
      milestones: [{ length: 2, rewards: { currencies: { coins: 1_000 } } }],
    });

  const won = (daysAgo: number) => ({
    at: new Date(Date.now() - daysAgo * DAY_MS),
    properties: { score: 1, game: "a" },
  });
  const has = async (user: string): Promise<{ current: number; coins: number }> => {
    const [row] = await domain.sql<{ current: number; coins: number }>`
      select s.current, b.balance as coins from players p
      join player_streaks s on s.project_id = p.project_id and s.player_id = p.id
      join player_balances b on b.project_id = p.project_id and b.player_id = p.id
      where p.project_id = ${projectId} and p.external_user_id = ${user}`;
    return { current: row!.current, coins: row!.coins };
  };
  const revert = (eventId: string) => takeBack(domain, projectId, eventId);
  it("is not held by an event from before the streak was defined", async () => {
    const all = projectId;
    projectId = await aHistoryProject(domain, { badges: [], boards: [] });
    const events = [won(0)];
    await play(domain, projectId, { user: "early", events });
    await defineStreak();
    const [later] = await play(domain, projectId, { user: "early", events });
    assert.equal((await has("early")).current, 1);
    const { streaks, left } = await revert(later!);
    assert.deepEqual([streaks, left, (await has("early")).current], [["daily"], [], 0]);
    projectId = all;
  });

  it("is held by what is left, in any order and together", async () => {
    let runs = 0;
    const orders = fc.array(fc.nat({ max: 9 }), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(orders, async (order) => {
        const run = runs++;
        const events = [won(1), ...order.map(() => won(0))];
        const [, ...single] = await play(domain, projectId, { user: `single-${run}`, events });
        const [, ...bulk] = await play(domain, projectId, { user: `bulk-${run}`, events });
        /** 0: never reverted. */
        const gone = order.map((turn, i) => ({ turn, i })).filter(({ turn }) => turn > 0);
        for (const { i } of gone.toSorted((a, b) => a.turn - b.turn)) await revert(single[i]!);
        const eventIds = gone.map(({ i }) => bulk[i]!);
        await domain.transact((work) => revertEvents(work, projectId, { eventIds, ...HOW }));
        const current = gone.length < order.length ? 2 : 1;
        assert.equal((await has(`single-${run}`)).current, current);
        assert.equal((await has(`bulk-${run}`)).current, current);
      }),
      { numRuns: cases(12) },
    );
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });
});
