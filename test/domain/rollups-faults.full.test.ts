import assert from "node:assert/strict";
import { readQueues } from "../../src/domain/delivery/queues.ts";
import { forgetRollups, haltRollups } from "../../src/domain/analytics/rollups/roll-up.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import type { Transact } from "../../src/domain/kernel/work.ts";
import { rollUpAnalytics } from "../../src/jobs/jobs.ts";
import {
  anAsker,
  apply,
  askBothWays,
  assertHeld,
  rollUpAll,
  START_MS,
  whenOf,
} from "../support/analytics/histories.ts";
import { eventually } from "../support/eventually.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { madeOnce } from "../support/made.ts";

describe("rollups of analytics, where something fails", () => {
  const api = madeOnce(startApp);

  it("that are halted gather nothing that stopped to count, and are right when built anew", async () => {
    const asker = await anAsker(api);
    const { projectId } = asker.tenant;
    const at = (hour: number) => new Date(START_MS + hour * 3_600_000).toISOString();
    await asker.store([
      ["a", "seen", at(0)],
      ["a", "won", at(1)],
      ["b", "won", at(2)],
    ]);
    await rollUpAll(api, projectId);
    await api.app.transact((work) => haltRollups(work, projectId));
    const { rollupsHalted } = await api.app.transact(readQueues);
    assert.ok(rollupsHalted > 0, "operators are told");
    await apply(api, asker, { revert: 1 });
    const count = async () => {
      const rows = await api.sql<{ events: number; gains: number }>`
        select
          (select count(*)::int from uncounted_events where project_id = p.id) as events,
          (select count(*)::int from uncounted_gains where project_id = p.id) as gains
        from projects p where p.id = ${projectId}::uuid`;
      return rows[0];
    };
    await api.sql`insert into uncounted_gains (project_id, gain_id, metric, key, at)
      values (${projectId}::uuid, ${newId()}::uuid, 'badgesEarned', '', now())`;
    assert.deepEqual(await count(), { events: 1, gains: 1 });
    await rollUpAnalytics.run(api.app, "*");
    assert.deepEqual(await count(), { events: 0, gains: 0 });
    await api.app.transact((work) => forgetRollups(work, projectId));
    await rollUpAll(api, projectId);
    await assertHeld(api, projectId);
    const when = { timezone: "UTC", from: 0, days: 2, minutes: 0 as const, asOf: 48 };
    await askBothWays(api, whenOf(projectId, when));
  });

  describe("job", () => {
    /** Runs the job for several projects, with a database that fails after the first question. */
    const runWith = async (code: string, isOver: (calls: number) => boolean): Promise<number> => {
      for (let n = 0; n < 3; n++) await aTenant(api);
      let calls = 0;
      const transact: Transact = async (...of) => {
        if (++calls > 1 && !isOver(calls)) throw Object.assign(new Error(`fails: ${code}`), { code });
        return api.app.transact(...of);
      };
      const run = rollUpAnalytics.run({ ...api.app, transact }, "*");
      if (isOver(Infinity)) await run;
      else await assert.rejects(run, new RegExp(code));
      return calls;
    };

    it("ends when the database is away, which is no fault of the projects", async () => {
      assert.equal(await runWith("ECONNREFUSED", () => false), 2);
    });

    it("goes on with the others after a conflict over one project", async () => {
      // The app's own job may come to the projects first.
      await eventually(async () => (await runWith("40001", (calls) => calls > 2)) > 4, { timeoutMs: 60_000 });
    });
  });
});
