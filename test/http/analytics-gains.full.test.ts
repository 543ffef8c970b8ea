import assert from "node:assert/strict";
import fc from "fast-check";
import { askBothWays, assertHeld, rollUpAll } from "../support/analytics/both-ways.ts";
import { aQuestion, whenOf } from "../support/analytics/changes.ts";
import { anEconomyChange, applyInEconomy, openEconomy } from "../support/analytics/earning.ts";
import { type Asker, anAsker } from "../support/analytics/questions.ts";
import { startApp } from "../support/app/app.ts";
import { cases } from "../support/properties.ts";
import { madeOnce } from "../support/made.ts";

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
      [metrics.xpGranted, metrics.badgesEarned, metrics.currencyGranted.coins].map(({ value }) => value),
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
    assert.deepEqual(
      series[0].points.map(({ value }: { value: number }) => value),
      [6, 3],
    );
  });
});
