import assert from "node:assert/strict";
import { sql } from "kysely";
import type { WarehouseStore } from "../../src/domain/analytics/warehouse/store.ts";
import { createExportWarehouse } from "../../src/jobs/warehouse.ts";
import { createDirectoryStore } from "../../src/platform/warehouse/directory.ts";
import { createS3Store } from "../../src/platform/warehouse/s3.ts";
import { eventually } from "../support/eventually.ts";
import { startTcpProxy } from "../support/faults/tcp-proxy.ts";
import { aHistoryProject, play } from "../support/reverts/histories.ts";
import { manifestIn } from "../support/warehouse/export.ts";
import { startS3Server } from "../support/warehouse/s3-server.ts";
import { warehouseStage } from "../support/warehouse/stage.ts";
import { assertLoaded } from "../support/warehouse/truth.ts";

type Row = { lease: string | null; until: unknown; failures: number; retry: unknown; writing: string | null };

describe("a worker of the warehouse that stops", () => {
  const stage = warehouseStage();

  const rowOf = (projectId: string): Promise<Row> =>
    stage.domain.transact(async ({ db }) => {
      const { rows } = await sql<Row>`
        select lease::text, leased_until as until, failures, retry_at as retry, writing
        from warehouse_projects where project_id = ${projectId}::uuid`.execute(db);
      return rows[0]!;
    });
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

  it("does so too while the store hangs, and what it was storing is removed by the next one", async () => {
    const server = await startS3Server();
    const proxy = await startTcpProxy("127.0.0.1", server.port);
    try {
      const projectId = await aProject();
      const endpoint = `http://127.0.0.1:${proxy.port}`;
      // Longer than the test may take: a stop that waited for the store would be seen.
      const store = createS3Store({ ...server.settings, endpoint }, 600_000);
      assert.deepEqual((await work(store)).errors, []);
      await play(stage.domain, projectId, { user: "bob", events: [stage.game(8)] });
      stage.nowMs += 600_000;
      proxy.hang();
      const job = createExportWarehouse();
      const { app, errors } = await stage.worker({ store });
      const running = job.run(app, "*");
      const begun = await eventually(async () => (await rowOf(projectId)).writing);
      job.stop!();
      await running;
      assert.deepEqual(errors, []);
      const row = await rowOf(projectId);
      isFree(row);
      assert.equal(row.writing, begun);
      await proxy.restore();
      assert.deepEqual((await work(store)).errors, []);
      assert.equal(await store.size(begun), undefined);
      const path = (n: number) => `manifest/project_id=${projectId}/${String(n).padStart(12, "0")}.json`;
      assert.notEqual(await store.size(path(2)), undefined);
      assert.equal(await store.size(path(3)), undefined);
    } finally {
      await proxy.stop();
      await server.stop();
    }
  });
});
