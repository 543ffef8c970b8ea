import fc from "fast-check";
import assert from "node:assert/strict";
import { startApp, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";
import {
  aChange,
  anAsker,
  apply,
  aQuestion,
  askBothWays,
  type Asker,
  assertHeld,
  revertPast,
  rollUpAll,
  START_MS,
  whenOf,
} from "../support/analytics/histories.ts";
import { cases } from "../support/properties.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const HOUR_MS = 3_600_000;
const USERS = ["a", "b", "c", "d", "e", "f"];

const anEarning = fc.record({
  user: fc.constantFrom(...USERS),
  hour: fc.oneof(
    fc.double({ min: -45 * 24, max: 10 * 24, noNaN: true }),
    // Several at one time, at the edges of quarters of an hour.
    fc.integer({ min: 0, max: 40 }).map((quarter) => quarter / 4),
  ),
  /** XP of each: some are a level or more. */
  points: fc.constantFrom<number>(1, 7, 150, 20_000),
});

/** What else happens: events that bring gains, gains that no event brings, and reverts of the former. */
const anEconomyChange = fc.oneof(
  { weight: 5, arbitrary: fc.array(anEarning, { minLength: 1, maxLength: 8 }).map((earn) => ({ earn })) },
  { weight: 1, arbitrary: fc.constantFrom(...USERS).map((give) => ({ give })) },
  { weight: 3, arbitrary: fc.nat({ max: 200 }).map((undo) => ({ undo })) },
  { weight: 2, arbitrary: fc.constant({ rollUp: true as const }) },
  { weight: 4, arbitrary: aChange },
);
type EconomyChange = typeof anEconomyChange extends fc.Arbitrary<infer T> ? T : never;

/** Gives the project a currency, a badge and a rule: `earned` brings XP, coins, and the badge once. */
const openEconomy = async (api: TestApp, { tenant: { key } }: Asker): Promise<void> => {
  const make = async (path: string, body: object) =>
    must(await api.post(`/api/v1/${path}`, body, { key }), 201);
  await make("currencies", { key: "coins", name: "Coins" });
  await make("badges", { key: "first", name: "First" });
  const rule = await make("rules", {
    key: "earned",
    name: "Earned",
    triggers: [{ kind: "EVENT", eventTypes: ["earned"] }],
    actions: [
      { type: "grant_xp", amount: { $ref: "event.properties.points" } },
      { type: "adjust_currency", currencyKey: "coins", amount: 3 },
      { type: "update_badge", badgeKey: "first", operation: "AWARD" },
    ],
  });
  must(await api.post(`/api/v1/rules/${rule.id}/publish`, {}, { key }), 200);
};

/** Makes a change of a project with an economy. */
const applyInEconomy = async (api: TestApp, asker: Asker, change: EconomyChange): Promise<void> => {
  const { key } = asker.tenant;
  if ("earn" in change)
    for (const { user, hour, points } of change.earn) {
      const timestamp = new Date(Math.floor(START_MS + hour * HOUR_MS)).toISOString();
      const event = { externalUserId: user, eventType: "earned", timestamp, properties: { points } };
      must(await api.post("/api/v1/events?wait=true", event, { key }), 200);
    }
  else if ("give" in change) {
    // Of a player who was never seen, or is not any more, there is nothing to give to.
    await api.post(`/api/v1/players/ext:${change.give}/xp`, { amount: 9 }, { key });
    await api.post(`/api/v1/players/ext:${change.give}/badges/first`, {}, { key });
  } else if ("undo" in change) {
    const { data } = must(await api.get("/api/v1/events?limit=100&eventType=earned", { key }), 200);
    const ids: string[] = data.map(({ id }: { id: string }) => id).toSorted();
    if (ids.length > 0) await revertPast(api, key, ids[change.undo % ids.length]!);
  } else await apply(api, asker, change);
};

describe("rollups of what players gain", () => {
  const api = madeOnce(startApp);

  const anEarner = async (): Promise<Asker> => {
    const asker = await anAsker(api);
    await openEconomy(api, asker);
    await rollUpAll(api, asker.tenant.projectId);
    return asker;
  };

  it("say the same as what is stored, whatever came late, was reverted, merged and erased", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(anEconomyChange, { minLength: 2, maxLength: 14 }),
        fc.array(aQuestion, { minLength: 1, maxLength: 2 }),
        async (changes, questions) => {
          const asker = await anEarner();
          for (const change of changes) await applyInEconomy(api, asker, change);
          await assertHeld(api, asker.tenant.projectId);
          for (const question of questions) await askBothWays(api, whenOf(asker.tenant.projectId, question));
          const { projectId } = asker.tenant;
          // What no event brought was gained today.
          const now = Date.now();
          const frame = {
            projectId,
            timezone: "UTC",
            weekStart: "monday" as const,
            dayStartsMs: 0,
            asOfMs: now + 1,
            aheadMs: 0,
          };
          const date = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
          await askBothWays(api, { frame, query: { from: date(now - 86_400_000), to: date(now) } });
        },
      ),
      { numRuns: cases(12) },
    ));
  it("keep all amounts, which the overview and trends then show", async () => {
    const asker = await anEarner();
    const earn = [
      { user: "a", hour: 0.5, points: 20_000 },
      { user: "a", hour: 0.5, points: 7 },
      { user: "b", hour: 30, points: 1 },
    ];
    await applyInEconomy(api, asker, { earn });
    await rollUpAll(api, asker.tenant.projectId);
    const range = { from: "2018-10-30", to: "2018-10-31" };
    const { metrics } = await asker.ask("overview", range);
    assert.deepEqual(
      pluck([metrics.xpGranted, metrics.badgesEarned, metrics.currencyGranted.coins], "value"),
      [20_008, 2, 9],
    );
    assert.deepEqual(metrics.xpGranted.series, [20_007, 1]);
    assert.ok(metrics.levelUps.value > 0, "a level was reached");
    const later = await asker.ask("overview", {
      from: "2018-10-30T00:30:00.001Z",
      to: "2018-10-31T06:00:00Z",
    });
    assert.deepEqual([later.metrics.xpGranted.value, later.metrics.xpGranted.series], [0, [0, 0]]);
    const { series } = await asker.ask("trends", { ...range, metric: "currencyGranted:coins" });
    assert.deepEqual(pluck(series[0].points, "value"), [6, 3]);
  });
});
