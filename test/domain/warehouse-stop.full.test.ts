import assert from "node:assert/strict";
import { registerProjects } from "../../src/domain/analytics/warehouse/progress.ts";
import type { WarehouseStore } from "../../src/domain/analytics/warehouse/store.ts";
import { ensurePartitions } from "../../src/domain/registries/retention.ts";
import { stepSchedules } from "../../src/domain/rules/schedules.ts";
import { retention } from "../../src/jobs/sweeps.ts";
import { createExportWarehouse } from "../../src/jobs/warehouse.ts";
import { createDirectoryStore } from "../../src/platform/warehouse/directory.ts";
import { startApp } from "../support/app/app.ts";
import { processAll, publish } from "../support/domain/domain.ts";
import { aHistoryProject, play } from "../support/reverts/histories.ts";
import { assertLoaded, manifestIn, warehouseStage } from "../support/warehouse/stage.ts";

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
  const effectsLeft = async (projectId: string): Promise<number> => {
    const rows = await stage.domain.sql`
      select from outbox where project_id = ${projectId}::uuid and event_id is not null
        and player_seq is not null`;
    return rows.length;
  };
  /** A project with an event and its effects. Of weeks that another one keeps longer, rows are deleted. */
  const aProject = async (days: number): Promise<string> => {
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    await stage.domain
      .sql`update projects set settings = settings || ${JSON.stringify({ activityDays: days })}::jsonb
      where id = ${projectId}::uuid`;
    await stage.domain.sql`update tenants set plan = 'ENTERPRISE' from projects p
      where p.tenant_id = tenants.id and p.id = ${projectId}::uuid`;
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
    await domain.sql`update rule_schedules set due_at = ${new Date(stage.nowMs - 3_600_000).toISOString()}::timestamptz,
        after_player = '00000000-0000-0000-0000-000000000000'
      where project_id = ${projectId}::uuid`;
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

type Row = { lease: string | null; until: unknown; failures: number; retry: unknown; writing: string | null };

describe("a worker of the warehouse that stops", () => {
  const stage = warehouseStage();

  const rowOf = async (projectId: string): Promise<Row> => {
    const rows = await stage.domain.sql<Row>`
      select lease::text, leased_until as until, failures, retry_at as retry, writing
      from warehouse_projects where project_id = ${projectId}::uuid`;
    return rows[0]!;
  };
  /** A project that waits for its first file. */
  const aProject = async (): Promise<string> => {
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    await stage.run();
    await play(stage.domain, projectId, { user: "ada", events: [stage.game(3)] });
    stage.nowMs += 600_000;
    return projectId;
  };
  /** Runs a worker that `stops` is to stop. @returns what it has logged */
  const work = async (store: WarehouseStore, stops: (stop: () => void) => WarehouseStore = () => store) => {
    const job = createExportWarehouse();
    const { app, errors } = await stage.worker({ store: stops(() => job.stop!()) });
    await job.run(app, "*");
    return { errors, job, app };
  };
  const isFree = ({ lease, until, failures, retry }: Row): void =>
    assert.deepEqual([lease, until, failures, retry], [null, null, 0, null]);

  it("gives the project back at once, wherever it is; the next one goes on as after a death", async () => {
    const store = createDirectoryStore(stage.root);
    const operations = ["put", "size", "get", "remove"] as const;
    for (const when of ["before", "after"] as const)
      for (let nth = 0, isStopped = true; isStopped; nth++) {
        const projectId = await aProject();
        isStopped = false;
        let at = 0;
        const stopping = (stop: () => void): WarehouseStore => {
          const wrapped = { ...store };
          for (const name of operations)
            wrapped[name] = async (...given: unknown[]) => {
              const isNow = at++ === nth;
              isStopped ||= isNow;
              if (isNow && when === "before") stop();
              const result = await (store[name] as (...of: unknown[]) => Promise<never>)(...given);
              if (isNow && when === "after") stop();
              return result;
            };
          return wrapped;
        };
        const { errors, job, app } = await work(store, stopping);
        assert.deepEqual(errors, []);
        const row = await rowOf(projectId);
        isFree(row);
        await job.run(app, "*");
        assert.deepEqual(await rowOf(projectId), row, "and takes none any more");
        assert.deepEqual(await stage.runNow(), []);
        await stage.warehouse.load();
        assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), 1);
        stage.assertListed();
        assert.ok(nth < 20);
      }
    assert.ok(manifestIn(stage.root).length > 10);
  });
});
