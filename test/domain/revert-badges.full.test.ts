import assert from "node:assert/strict";
import fc from "fast-check";
import {
  awardByHand,
  listPlayerBadges,
  type PlayerBadge,
} from "../../src/domain/economy/badges/player-badges.ts";
import { revertEvents } from "../../src/domain/revert/revert-events.ts";
import { define, findingsOf, memoryDomain, publish } from "../support/domain/domain.ts";
import { aHistoryProject, HOW, play, takeBack } from "../support/reverts/histories.ts";
import { cases } from "../support/properties.ts";

describe("a badge that rules award, when events are reverted together", () => {
  const { domain } = memoryDomain();
  let projectId: string;

  before(async () => {
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

  const twoOf = async (user: string): Promise<[string, string]> => {
    const event = { at: new Date(), properties: { score: 1 } };
    const ids = await play(domain, projectId, { user, events: [event, event] });
    assert.deepEqual(await has(user), { tier: 1, gems: 10, times: 2, awards: 2 });
    return ids as [string, string];
  };
  const has = async (user: string) => {
    const [row] = await domain.sql<{ tier: number; gems: number; times: number; awards: number }>`
      select b.tier, b.times_awarded as times, coalesce(g.balance, 0) as gems,
        (select count(*) from badge_awards a where a.project_id = p.project_id and a.player_id = p.id
          and a.action = 'AWARDED') as awards
      from players p
      join player_badges b on b.project_id = p.project_id and b.player_id = p.id and b.badge_key = 'hero'
      left join player_balances g on g.project_id = p.project_id and g.player_id = p.id
        and g.currency_key = 'gems'
      where p.project_id = ${projectId} and p.external_user_id = ${user}`;
    return { tier: row!.tier, gems: row!.gems, times: row!.times, awards: row!.awards };
  };
  const together = async (eventIds: readonly string[]) => {
    const { results } = await domain.transact((work) => revertEvents(work, projectId, { eventIds, ...HOW }));
    for (const { left } of results) assert.deepEqual(left, []);
  };

  it("is taken when all that have awarded it are among them, as it is one by one", async () => {
    await together(await twoOf("both"));
    assert.deepEqual(await has("both"), { tier: 0, gems: 0, times: 0, awards: 2 });
    for (const user of ["in order", "backwards"]) {
      const ids = await twoOf(user);
      for (const id of user === "backwards" ? ids.toReversed() : ids) await takeBack(domain, projectId, id);
      assert.deepEqual(await has(user), { tier: 0, gems: 0, times: 0, awards: 2 });
    }
  });

  it("stays while another event has awarded it, with what that one gave", async () => {
    for (const place of [0, 1]) {
      const ids = await twoOf(`one-${place}`);
      await together([ids[place]!]);
      assert.deepEqual(await has(`one-${place}`), { tier: 1, gems: 5, times: 1, awards: 2 });
    }
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });

  it("can be awarded, taken and revoked again afterwards, with its rewards", async () => {
    const event = { at: new Date(), properties: { score: 1 } };
    const user = "again";
    for (let times = 0; times < 2; times++) {
      const ids = await play(domain, projectId, { user, events: [event, event] });
      assert.deepEqual(await has(user), { tier: 1, gems: 10, times: 2, awards: 4 * times + 2 });
      await takeBack(domain, projectId, ids[0]!);
      const more = await play(domain, projectId, { user, events: [event, event] });
      assert.deepEqual(await has(user), { tier: 1, gems: 15, times: 3, awards: 4 * times + 4 });
      await together([ids[1]!, ...more]);
      assert.deepEqual(await has(user), { tier: 0, gems: 0, times: 0, awards: 4 * times + 4 });
    }
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });

  it("has what others would have given on the way to a higher tier, while one of them stands", async () => {
    const tiers = [5, 50].map((gems, i) => ({ tier: i + 1, rewards: { currencies: { gems } } }));
    await define(domain, projectId, "badge", { key: "medal", name: "Medal", repeatable: true, tiers });
    for (const tier of [1, 2])
      await publish(domain, projectId, {
        key: `medals-${tier}`,
        triggers: [{ kind: "EVENT", eventTypes: [`tier-${tier}`] }],
        actions: [{ type: "update_badge", badgeKey: "medal", operation: "AWARD", tier }],
      });
    const medalOf = async (user: string) => {
      const [row] = await domain.sql<{ tier: number; times: number; gems: number }>`
        select b.tier, b.times_awarded as times, coalesce(g.balance, 0) as gems
        from players p join player_badges b on b.project_id = p.project_id and b.player_id = p.id
        left join player_balances g on g.project_id = p.project_id and g.player_id = p.id
          and g.currency_key = 'gems'
        where p.project_id = ${projectId} and p.external_user_id = ${user} and b.badge_key = 'medal'`;
      return { tier: row?.tier ?? 0, times: row?.times ?? 0, gems: row?.gems ?? 0 };
    };
    let runs = 0;
    const histories = fc.array(
      fc.record({ tier: fc.constantFrom(1, 2), reverted: fc.oneof(fc.constant(0), fc.nat({ max: 99 })) }),
      { minLength: 1, maxLength: 5 },
    );
    await fc.assert(
      fc.asyncProperty(histories, async (history) => {
        const run = runs++;
        const eventOf = ({ tier }: { tier: number }) => ({
          type: `tier-${tier}`,
          at: new Date(),
          properties: {},
        });
        const [single, bulk] = [`single-${run}`, `bulk-${run}`];
        const events = history.map(eventOf);
        const ids = await play(domain, projectId, { user: single, events });
        const all = await play(domain, projectId, { user: bulk, events });
        const rest = history.filter(({ reverted }) => reverted === 0).map(eventOf);
        await play(domain, projectId, { user: `rest-${run}`, events: rest });
        const gone = history
          .map(({ reverted }, i) => ({ reverted, i }))
          .filter(({ reverted }) => reverted > 0);
        for (const { i } of gone.toSorted((a, b) => a.reverted - b.reverted))
          assert.deepEqual((await takeBack(domain, projectId, ids[i]!)).left, []);
        await together(gone.map(({ i }) => all[i]!));
        const expected = await medalOf(`rest-${run}`);
        assert.deepEqual(await medalOf(single), expected);
        assert.deepEqual(await medalOf(bulk), expected);
      }),
      { numRuns: cases(12) },
    );
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });

  it("names in left what stays of progress that a rule added, and of a badge that was revoked", async () => {
    const tiers = [{ tier: 1, threshold: 5 }];
    await define(domain, projectId, "badge", { key: "path", name: "Path", tiers });
    const actions = {
      walked: { operation: "PROGRESS", amount: 5 },
      fell: { operation: "REVOKE" },
    };
    for (const [type, action] of Object.entries(actions))
      await publish(domain, projectId, {
        key: type,
        triggers: [{ kind: "EVENT", eventTypes: [type] }],
        actions: [{ type: "update_badge", badgeKey: "path", ...action }],
      });
    const eventOf = (type: string) => ({ type, at: new Date(), properties: {} });
    const ids = await play(domain, projectId, { user: "walker", events: ["walked", "fell"].map(eventOf) });
    const left = [];
    for (const id of ids) left.push((await takeBack(domain, projectId, id)).left);
    assert.deepEqual(left, [
      ["badge path: what it gave before it was revoked", "progress of badge path by rule walked"],
      ["badge path: that it was revoked"],
    ]);
  });

  it("that somebody has awarded by hand keeps that award, whatever its counter loses", async () => {
    const progressMetric = { eventTypes: ["counted"], aggregate: "count" };
    const tiers = [2, 5].map((threshold, i) => ({ tier: i + 1, threshold }));
    await define(domain, projectId, "badge", { key: "wins", name: "Wins", progressMetric, tiers });
    const event = { type: "counted", at: new Date(), properties: {} };
    const [first] = await play(domain, projectId, { user: "by hand", events: [event] });
    const [player] = await domain.sql<{ id: string }>`
      select id from players where project_id = ${projectId} and external_user_id = 'by hand'`;
    const ref = { projectId, id: player!.id };
    const award = { badge: "wins", tier: 2, cause: { kind: "API" as const, actor: "us" } };
    await domain.transact((work) => awardByHand(work, ref, award));
    await takeBack(domain, projectId, first!);
    const [{ tier, timesAwarded, firstEarnedAt }] = (
      await domain.transact((work) => listPlayerBadges(work, ref, { state: "HELD", page: 1, limit: 9 }))
    ).badges as [PlayerBadge];
    assert.deepEqual([tier, timesAwarded, firstEarnedAt === null], [2, 1, false]);
  });
});
