import assert from "node:assert/strict";
import { createExportWarehouse } from "../../src/jobs/warehouse.ts";
import { aHistoryProject, play } from "../support/reverts/histories.ts";
import { warehouseStage } from "../support/warehouse/stage.ts";
import { assertLoaded } from "../support/warehouse/truth.ts";

describe("the files of a warehouse of many projects", () => {
  const stage = warehouseStage();

  it("are written for all that are due in one run, however few it looks for at once", async () => {
    const projectIds: string[] = [];
    for (let n = 0; n < 5; n++) projectIds.push(await aHistoryProject(stage.domain, { boards: [] }));
    await stage.run();
    for (const projectId of projectIds)
      await play(stage.domain, projectId, { user: "ada", events: [stage.game(3)] });
    stage.nowMs += 600_000;
    const { app, errors } = await stage.worker();
    await createExportWarehouse(2).run(app, "*");
    assert.deepEqual(errors, []);
    await stage.warehouse.load();
    for (const projectId of projectIds)
      assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), 1);
  });
});
