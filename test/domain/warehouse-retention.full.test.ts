import assert from "node:assert/strict";
import { sql } from "kysely";
import { registerProjects } from "../../src/domain/analytics/warehouse/progress.ts";
import { ensurePartitions } from "../../src/domain/registries/partitions.ts";
import { createExportWarehouse } from "../../src/jobs/warehouse.ts";
import { retention } from "../../src/jobs/sweeps.ts";
import { createDirectoryStore } from "../../src/platform/warehouse/directory.ts";
import { startApp } from "../support/app/app.ts";
import { aHistoryProject, play } from "../support/reverts/histories.ts";
import { warehouseStage } from "../support/warehouse/stage.ts";

const DAY_MS = 86_400_000;

describe("retention beside files for a warehouse", () => {
  const stage = warehouseStage();

  const retain = async (): Promise<void> => {
    const { app } = await startApp();
    await retention.run({ ...app, transact: stage.domain.transact }, "*");
  };
  const writeFiles = async (): Promise<void> => {
    const { app } = await startApp();
    const store = async () => createDirectoryStore(stage.root);
    const parts = { store, everyMs: 300_000, lagMs: 120_000 };
    await createExportWarehouse().run({ ...app, transact: stage.domain.transact, warehouse: parts }, "*");
  };
  const pass = async (days: number): Promise<void> => {
    stage.nowMs += days * DAY_MS;
    await stage.domain.transact(ensurePartitions);
  };
  const effectsLeft = (projectId: string): Promise<number> =>
    stage.domain.transact(async ({ db }) => {
      const { rows } = await sql`
        select from outbox where project_id = ${projectId}::uuid and event_id is not null
          and player_seq is not null`.execute(db);
      return rows.length;
    });
  /** A project with an event and its effects. Of weeks that another one keeps longer, rows are deleted. */
  const aProject = async (days: number): Promise<string> => {
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    await stage.domain.transact(({ db }) =>
      sql`update projects set settings = settings || ${JSON.stringify({ activityDays: days })}::jsonb
        where id = ${projectId}::uuid`.execute(db),
    );
    await stage.domain.transact(({ db }) =>
      sql`update tenants set plan = 'ENTERPRISE' from projects p
        where p.tenant_id = tenants.id and p.id = ${projectId}::uuid`.execute(db),
    );
    await play(stage.domain, projectId, {
      user: "ada",
      events: [{ at: new Date(stage.nowMs), properties: { score: 3, game: "a" } }],
    });
    await stage.domain.relay();
    return projectId;
  };

  for (const [name, others] of [
    ["weeks", 30],
    ["rows", 4_000],
  ] as const) {
    it(`keeps ${name} with effects that are in no file yet, and deletes them afterwards`, async () => {
      const projectId = await aProject(30);
      await aProject(others);
      await pass(60);
      await stage.domain.transact(registerProjects);
      const before = await effectsLeft(projectId);
      assert.ok(before > 0);
      await retain();
      assert.equal(await effectsLeft(projectId), before);
      stage.nowMs += 600_000;
      await writeFiles();
      await retain();
      assert.equal(await effectsLeft(projectId), 0);
      await stage.warehouse.load();
      const [row] = await stage.warehouse.ask(
        `select sum(json_array_length("effects"))::int as n from events where "projectId" = '${projectId}'`,
      );
      assert.deepEqual(row, { n: before });
    });
  }

  it("waits a week and no longer for files that do not come on", async () => {
    const projectId = await aProject(30);
    await pass(60);
    await stage.domain.transact(registerProjects);
    await pass(6);
    await retain();
    assert.notEqual(await effectsLeft(projectId), 0);
    await pass(2);
    await retain();
    assert.equal(await effectsLeft(projectId), 0);
  });
});
