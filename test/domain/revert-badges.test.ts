import assert from "node:assert/strict";
import { sql } from "kysely";
import { revertEvents } from "../../src/domain/revert/revert-events.ts";
import type { Database } from "../../src/platform/database.ts";
import { type Domain, openDomain } from "../support/domain/domain.ts";
import { openMemoryDatabase } from "../support/domain/memory-database.ts";
import { define, publish, rowsOf } from "../support/domain/rule-projects.ts";
import { aHistoryProject, findingsOf, play, takeBack } from "../support/reverts/histories.ts";

const HOW = { reason: "test", onShortfall: "CLAMP", actor: "test" } as const;

describe("a badge that rules award, when events are reverted together", function () {
  this.timeout(120_000);
  let database: Database;
  let domain: Domain;
  let projectId: string;

  before(async () => {
    database = await openMemoryDatabase();
    domain = openDomain(database);
    projectId = await aHistoryProject(domain, { badges: [], boards: [] });
    await define(domain, projectId, "currency", { key: "gems", name: "Gems" });
    const tiers = [{ tier: 1, rewards: { currencies: { gems: 5 } } }];
    await define(domain, projectId, "badge", { key: "hero", name: "Hero", repeatable: true, tiers });
    await publish(domain, projectId, {
      key: "heroes",
      triggers: [{ kind: "EVENT", eventTypes: ["won"] }],
      actions: [{ type: "update_badge", badgeKey: "hero", operation: "AWARD" }],
    });
  });
  after(() => database.close());

  const twoOf = async (user: string): Promise<[string, string]> => {
    const event = { at: new Date(), properties: { score: 1 } };
    const ids = await play(domain, projectId, { user, events: [event, event] });
    assert.deepEqual(await has(user), { tier: 1, gems: 10, awards: 2 });
    return ids as [string, string];
  };
  const has = async (user: string) => {
    const [row] = await rowsOf(
      domain,
      sql<{ tier: number; gems: string | number; awards: string | number }>`
        select b.tier, coalesce(g.balance, 0) as gems, (select count(*) from badge_awards a
            where a.project_id = p.project_id and a.player_id = p.id and a.action = 'AWARDED') as awards
        from players p
        join player_badges b on b.project_id = p.project_id and b.player_id = p.id and b.badge_key = 'hero'
        left join player_balances g on g.project_id = p.project_id and g.player_id = p.id
          and g.currency_key = 'gems'
        where p.project_id = ${projectId} and p.external_user_id = ${user}`,
    );
    return { tier: row!.tier, gems: Number(row!.gems), awards: Number(row!.awards) };
  };
  const together = async (eventIds: readonly string[]) => {
    const { results } = await domain.transact((work) => revertEvents(work, projectId, { eventIds, ...HOW }));
    for (const { left } of results) assert.deepEqual(left, []);
  };

  it("is taken when all that have awarded it are among them, as it is one by one", async () => {
    await together(await twoOf("both"));
    const { tier, gems } = await has("both");
    assert.equal(tier, 0);
    for (const user of ["in order", "backwards"]) {
      const ids = await twoOf(user);
      for (const id of user === "backwards" ? ids.toReversed() : ids) await takeBack(domain, projectId, id);
      assert.deepEqual(await has(user), { tier: 0, gems, awards: 2 });
    }
  });

  it("stays, with what it gave, while another event has awarded it", async () => {
    for (const place of [0, 1]) {
      const ids = await twoOf(`one-${place}`);
      await together([ids[place]!]);
      assert.deepEqual(await has(`one-${place}`), { tier: 1, gems: 10, awards: 2 });
    }
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });
});
