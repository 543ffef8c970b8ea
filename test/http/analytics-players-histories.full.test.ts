import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import { rangeOf } from "../../src/domain/analytics/range.ts";
import { openRolled } from "../../src/domain/analytics/rollups/rolled.ts";
import { rollUpAll } from "../support/analytics/both-ways.ts";
import { aChange, apply, aQuestion, START_MS, whenOf } from "../support/analytics/changes.ts";
import { allNumbers, listAll } from "../support/analytics/lists.ts";
import { anAsker } from "../support/analytics/questions.ts";
import { startApp } from "../support/app/app.ts";
import { cases } from "../support/properties.ts";
import { madeOnce } from "../support/made.ts";

describe("lists of players behind numbers", () => {
  const api = madeOnce(startApp);

  it("are as long as the number, from rollups and from events, after reverts, merges and erasures", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(aChange, { minLength: 2, maxLength: 14 }),
        aQuestion,
        async (changes, when) => {
          const asker = await anAsker(api);
          await asker.store([["a", "seen", new Date(START_MS).toISOString(), { map: "ice" }]]);
          await rollUpAll(api, asker.tenant.projectId);
          for (const change of changes) await apply(api, asker, change);
          const { frame, query } = whenOf(asker.tenant.projectId, when);
          const asked = { frame, range: rangeOf(frame, query) };
          const ofEvents = await api.app.transact(async (work) => {
            const numbers = await allNumbers(work, asked);
            const lists = new Map<string, string[]>();
            // Lists of nobody are many; a few of them are enough.
            for (const [i, one] of numbers.entries())
              if (one.players > 0 || i % 10 === 0)
                lists.set(JSON.stringify(one), await listAll(work, asked, one));
            return lists;
          });
          const ofRollups = await api.app.transact(async (work) => {
            await sql`set transaction isolation level repeatable read`.execute(work.db);
            assert.ok(await openRolled(work, frame), "there are rollups");
            const lists = new Map<string, string[]>();
            for (const [i, one] of (await allNumbers(work, asked)).entries())
              if (one.players > 0 || i % 10 === 0)
                lists.set(JSON.stringify(one), await listAll(work, asked, one));
            return lists;
          });
          assert.deepEqual(ofRollups, ofEvents);
        },
      ),
      { numRuns: cases(8) },
    ));
});
