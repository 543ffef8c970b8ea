import fc from "fast-check";
import { startApp } from "../support/app/app.ts";
import { askBothWays, assertHeld, rollUpAll } from "../support/analytics/both-ways.ts";
import { aChange, apply, aQuestion, START_MS, whenOf } from "../support/analytics/changes.ts";
import { anAsker } from "../support/analytics/questions.ts";
import { cases } from "../support/properties.ts";
import { madeOnce } from "../support/made.ts";

describe("rollups of analytics", () => {
  const api = madeOnce(startApp);

  it("say the same as events, whatever came late, was reverted, merged and erased", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(aChange, { minLength: 2, maxLength: 14 }),
        fc.array(aQuestion, { minLength: 1, maxLength: 2 }),
        async (changes, questions) => {
          const asker = await anAsker(api);
          await asker.store([["a", "seen", new Date(START_MS).toISOString()]]);
          await rollUpAll(api, asker.tenant.projectId);
          for (const change of changes) await apply(api, asker, change);
          await assertHeld(api, asker.tenant.projectId);
          for (const question of questions) await askBothWays(api, whenOf(asker.tenant.projectId, question));
        },
      ),
      {
        numRuns: cases(20),
        // A range that begins after `asOf`, with events between the two.
        examples: [
          [
            [
              {
                events: [
                  { user: "a", type: "seen", hour: -0.001 },
                  { user: "a", type: "seen", hour: 0.001 },
                ],
              },
              { rollUp: true },
            ],
            [{ timezone: "UTC", from: 0, days: 1, minutes: 7, asOf: 0 }],
          ],
        ],
      },
    ));
});
