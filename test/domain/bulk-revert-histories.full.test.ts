import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import { revertEvents, type RevertResult } from "../../src/domain/revert/revert-events.ts";
import { define, processAll, rowsOf } from "../support/domain/rule-projects.ts";
import {
  aHistoryProject,
  findingsOf,
  NOBODY,
  standingOf,
  takeBack,
  type Won,
  eventAgo,
  HOW,
  wonItems,
} from "../support/reverts/histories.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";
import { cases } from "../support/properties.ts";

const HOUR_MS = 3_600_000;

describe("events that are reverted together", () => {
  const { domain } = memoryDomain();
  let projectId: string;
  let runs = 0;

  before(async () => {
    projectId = await aHistoryProject(domain);
  });

  const together = (eventIds: readonly string[]) =>
    domain.transact((work) => revertEvents(work, projectId, { eventIds, ...HOW }));
  const track = async (sent: readonly { user: string; event: Won }[]): Promise<string[]> => {
    const ids = await domain.track(
      projectId,
      sent.map(({ user, event }) => ({ user, type: "won", ...event })),
    );
    await processAll(domain);
    return ids;
  };
  const coinsOf = async (user: string): Promise<number> => {
    const [row] = await rowsOf(
      domain,
      sql<{ balance: string | number }>`
        select b.balance from player_balances b
        join players p on p.project_id = b.project_id and p.id = b.player_id
        where p.project_id = ${projectId} and b.currency_key = 'coins' and p.external_user_id = ${user}`,
    );
    return Number(row?.balance ?? 0);
  };
  const has = async (user: string) => (await standingOf(domain, projectId, user)) ?? NOBODY;
  const sum = (results: readonly RevertResult[]): number =>
    results.reduce((total, { reversed }) => total + reversed.xp, 0);

  it("leave every player as one by one in any order, and as if they had never been", () =>
    fc.assert(
      fc.asyncProperty(fc.array(wonItems, { minLength: 1, maxLength: 3 }), async (histories) => {
        const run = runs++;
        const name = (kind: string, n: number): string => `${kind}-${run}-${n}`;
        const all = histories.flatMap((items, n) => items.map((item) => ({ n, item })));
        const play = (kind: string, some: typeof all): Promise<string[]> =>
          track(some.map(({ n, item }) => ({ user: name(kind, n), event: eventAgo(item) })));
        const isGone = ({ item }: (typeof all)[number]): boolean => item.reverted > 0;
        const bulk = await play("bulk", all);
        const single = await play("single", all);
        await play(
          "never",
          all.filter((one) => !isGone(one)),
        );
        const { results, refused } = await together(bulk.filter((_, i) => isGone(all[i]!)));
        assert.equal(refused.size, 0);
        for (const { left } of results)
          assert.deepEqual(
            left.filter((what) => !/^(level|streak) /.test(what)),
            [],
          );
        const singly: RevertResult[] = [];
        const inOrder = all
          .map((one, i) => ({ ...one, id: single[i]! }))
          .filter(isGone)
          .toSorted((a, b) => a.item.reverted - b.item.reverted);
        for (const { id } of inOrder) singly.push(await takeBack(domain, projectId, id));
        assert.equal(sum(results), sum(singly));
        for (const n of histories.keys()) {
          const expected = await has(name("never", n));
          assert.deepEqual(await has(name("single", n)), expected);
          assert.deepEqual(await has(name("bulk", n)), expected);
        }
      }),
      { numRuns: cases(20) },
    ));

  it("are found in order by a reconciliation", async () =>
    assert.deepEqual(await findingsOf(domain, projectId), []));

  it("lose the days of a streak from the last one on, with their rewards", async () => {
    const others = projectId;
    projectId = await aHistoryProject(domain, { badges: [], boards: [] });
    const metric = { eventTypes: ["won"], aggregate: "count" };
    await define(domain, projectId, "streak", {
      key: "daily",
      name: "Daily",
      qualify: { mode: "ALL", parts: [{ metric, threshold: 1 }] },
      milestones: [{ length: 2, rewards: { currencies: { coins: 1_000 } } }],
    });
    const event = (daysAgo: number): Won => ({
      at: new Date(Date.now() - daysAgo * 24 * HOUR_MS),
      properties: { score: 1, game: "a" },
    });
    const ids = await track([2, 1, 0].map((daysAgo) => ({ user: "streak", event: event(daysAgo) })));
    assert.equal(await coinsOf("streak"), 1_003);
    const { results } = await together(ids.slice(1));
    assert.deepEqual(
      results.map(({ streaks, left }) => [streaks, left]),
      [
        [["daily"], []],
        [["daily"], []],
      ],
    );
    assert.equal(await coinsOf("streak"), 1);
    assert.deepEqual(await findingsOf(domain, projectId), []);
    projectId = others;
  });

  it("are each told once, and a second time not reverted", async () => {
    const event: Won = { at: new Date(), properties: { score: 2, game: "b" } };
    const ids = await track(["told-a", "told-b", "told-b"].map((user) => ({ user, event })));
    const { results } = await together([...ids, ids[0]!]);
    assert.deepEqual(
      results.map(({ eventId, isReverted }) => [eventId, isReverted]),
      ids.map((id) => [id, true]),
    );
    const again = await together(ids);
    assert.ok(again.results.every(({ isReverted }) => !isReverted));
    const told = await rowsOf(
      domain,
      sql<{ id: string; xp: number }>`
        select data->>'eventId' as id, (data->'reversed'->>'xp')::int as xp from outbox
        where project_id = ${projectId} and type = 'event.reverted'
          and data->>'eventId' in (select json_array_elements_text(${JSON.stringify(ids)}::json))`,
    );
    assert.deepEqual(told.map(({ id }) => id).toSorted(), ids.toSorted());
    assert.equal(
      told.reduce((total, { xp }) => total + xp, 0),
      sum(results),
    );
    for (const user of ["told-a", "told-b"]) assert.deepEqual(await has(user), NOBODY);
  });
});
