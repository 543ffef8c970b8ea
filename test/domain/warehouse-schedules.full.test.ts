import assert from "node:assert/strict";
import { sql } from "kysely";
import { stepSchedules } from "../../src/domain/rules/schedules.ts";
import { processAll, publish } from "../support/domain/rule-projects.ts";
import { aHistoryProject, play } from "../support/reverts/histories.ts";
import { warehouseStage } from "../support/warehouse/stage.ts";
import { assertLoaded } from "../support/warehouse/truth.ts";

describe("the files of a warehouse on events of schedules", () => {
  const stage = warehouseStage();

  it("have those that come after files of later events, as what has changed", async () => {
    const { domain } = stage;
    const projectId = await aHistoryProject(domain, { boards: [] });
    await stage.run();
    const trigger = { kind: "SCHEDULE", cron: "0 9 * * *", timezone: "UTC" };
    await publish(domain, projectId, { key: "daily", triggers: [trigger] });
    await play(domain, projectId, { user: "ada", events: [stage.game(3)] });
    // Due before that event, and run by nobody for hours.
    await domain.transact(({ db }) =>
      sql`update rule_schedules set due_at = ${new Date(stage.nowMs - 3_600_000).toISOString()}::timestamptz,
          after_player = '00000000-0000-0000-0000-000000000000'
        where project_id = ${projectId}::uuid`.execute(db),
    );
    assert.deepEqual(await stage.run(), []);
    await stage.warehouse.load();
    assert.equal(await assertLoaded(domain, stage.warehouse, projectId), 1);
    const step = await domain.transact((work) => stepSchedules(work, undefined, { projectId }));
    assert.equal(step?.players, 1);
    await processAll(domain);
    await stage.exportAll();
    await stage.warehouse.load();
    assert.equal(await assertLoaded(domain, stage.warehouse, projectId), 2);
  });
});
