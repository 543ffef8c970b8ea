import assert from "node:assert/strict";
import { sql } from "kysely";
import { addZone, daysUntil } from "../../src/domain/analytics/rollups/closed-days.ts";
import { closeDays, rollUp } from "../../src/domain/analytics/rollups/roll-up.ts";
import { rollUpAnalytics } from "../../src/jobs/jobs.ts";
import { startApp } from "../support/app/app.ts";
import {
  anAsker,
  apply,
  askBothWays,
  type Asker,
  assertHeld,
  type Past,
  rollUpAll,
  START_MS,
  whenOf,
} from "../support/analytics/histories.ts";
import { eventually } from "../support/eventually.ts";
import { madeOnce } from "../support/made.ts";

const DAY_MS = 86_400_000;
/** The last day that rollups know, and with it the moment of questions, in days from START_MS. */
const NOW = 40;

describe("days that are over", () => {
  const api = madeOnce(startApp);
  const at = (day: number): string => new Date(START_MS + day * DAY_MS).toISOString();
  const close = ({ tenant }: Asker) => rollUpAll(api, tenant.projectId, START_MS + NOW * DAY_MS);
  /** Whether a question is answered from closed days. */
  const areClosed = ({ tenant: { projectId } }: Asker, timezone: string, asOfMs: number) =>
    api.app.transact(async (work) => {
      await sql`set transaction isolation level repeatable read`.execute(work.db);
      const days = { timezone, weekStart: "monday" as const, dayStartsMs: 0 };
      const frame = { projectId, ...days, asOfMs, aheadMs: 0 };
      return (await daysUntil(work, frame, frame.asOfMs)) !== undefined;
    });
  const askAll = async ({ tenant }: Asker): Promise<void> => {
    const when = { timezone: "UTC", minutes: 0 as const, asOf: (NOW + 0.5) * 24 };
    await askBothWays(api, whenOf(tenant.projectId, { ...when, from: NOW - 20, days: 20 }));
  };
  const HISTORY: Past[] = [
    ["a", "seen", at(0)],
    ["b", "won", at(0.5)],
    ["a", "won", at(1)],
    ["c", "seen", at(9)],
    // New on the first day of the range of `askAll`.
    ["f", "seen", at(NOW - 20)],
    ["b", "seen", at(30.99)],
    ["a", "seen", at(38)],
    ["d", "lost", at(NOW + 0.1)],
  ];

  it("are read in place of history, and tell the same after late events, reverts, merges and erasures", async () => {
    const asker = await anAsker(api);
    await asker.store(HISTORY);
    await close(asker);
    const changes = [
      { events: [{ user: "c", type: "won", hour: 5 * 24 }] },
      { events: [{ user: "e", type: "seen", hour: 39 * 24 }] },
      { revert: 2 },
      { merge: ["d", "a"] },
      { merge: ["c", "b"] },
      { erase: "e" },
    ] as const;
    for (const change of changes) {
      await apply(api, asker, change as never);
      await askAll(asker);
      await close(asker);
      await assertHeld(api, asker.tenant.projectId);
      assert.ok(await areClosed(asker, "UTC", START_MS + NOW * DAY_MS), JSON.stringify(change));
    }
    await askAll(asker);
  });

  it("are closed whatever a clock has said once, in few steps", async () => {
    const asker = await anAsker(api);
    const { projectId } = asker.tenant;
    await asker.store([
      ["z", "seen", "0001-01-01T00:00:00Z"],
      ["y", "seen", "1200-01-01T00:00:00Z"],
      ...HISTORY,
    ]);
    await api.app.transact((work) => rollUp(work, projectId, { lagMs: -60_000 }));
    await api.app.transact((work) => addZone(work, projectId, "Europe/Berlin"));
    let steps = 1;
    while (await api.app.transact((work) => closeDays(work, projectId, { restMs: 0 }))) steps++;
    assert.ok(steps < 100, `${steps} steps`);
    await assertHeld(api, projectId);
    for (const zone of ["UTC", "Europe/Berlin"]) assert.ok(await areClosed(asker, zone, Date.now()), zone);
    const { metrics } = await asker.ask("overview", { timezone: "Europe/Berlin" });
    assert.equal(metrics.totalPlayers.value, 7);
    // An event of long ago opens all days since, which a question does not add up by itself.
    await asker.store([["x", "seen", "1300-01-01T00:00:00Z"]]);
    await api.app.transact((work) => rollUp(work, projectId, { lagMs: -60_000 }));
    assert.equal(await areClosed(asker, "UTC", Date.now()), false);
    while (await api.app.transact((work) => closeDays(work, projectId, { restMs: 0 })));
    assert.equal(await areClosed(asker, "UTC", Date.now()), true);
    await assertHeld(api, projectId);
  });

  it("are closed by the job, in the zones that were asked about, and say nothing of others", async () => {
    const asker = await anAsker(api);
    const { projectId } = asker.tenant;
    await asker.store(HISTORY);
    await api.app.transact((work) => rollUp(work, projectId, { lagMs: -60_000 }));
    await api.sql`update analytics_rollups set rolled_up_at = now() - interval '1 day'
      where project_id = ${projectId}::uuid`;
    await asker.ask("overview", { timezone: "Asia/Tokyo", from: "2018-11-01", to: "2018-11-30" });
    const isKept = async () => {
      const rows = await api.sql`select from analytics_zones where project_id = ${projectId}::uuid
        and timezone = 'Asia/Tokyo'`;
      return rows.length === 1;
    };
    await eventually(isKept);
    await rollUpAnalytics.run(api.app, "*");
    for (const [zone, isClosed] of Object.entries({ UTC: true, "Asia/Tokyo": true, "Asia/Seoul": false }))
      assert.equal(await areClosed(asker, zone, Date.now()), isClosed, zone);
  });
});
