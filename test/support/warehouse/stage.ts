import assert from "node:assert/strict";
import { sql } from "kysely";
import type { App } from "../../../src/app.ts";
import type { WarehouseStore } from "../../../src/domain/analytics/warehouse/store.ts";
import { insertWarehouseChanges } from "../../../src/domain/kernel/events/warehouse-changes.ts";
import type { Transact } from "../../../src/domain/kernel/work.ts";
import { createExportWarehouse } from "../../../src/jobs/warehouse.ts";
import type { Database } from "../../../src/platform/database.ts";
import { createDirectoryStore } from "../../../src/platform/warehouse/directory.ts";
import { startApp } from "../app/app.ts";
import { type Domain, openDomain } from "../domain/domain.ts";
import { openMemoryDatabase } from "../domain/memory-database.ts";
import { temporaryDir } from "../processes/process.ts";
import { aHistoryProject, play } from "../reverts/histories.ts";
import { filesIn, manifestIn } from "./export.ts";
import { openWarehouse, type Warehouse } from "./load.ts";

/** Parts of a worker that misbehave. */
export type Parts = { store?: WarehouseStore; transact?: Transact };

/** A database, and a warehouse in a directory that workers write, by a clock of the test. */
export type WarehouseStage = {
  domain: Domain;
  /** The directory. */
  root: string;
  warehouse: Warehouse;
  nowMs: number;
  /** The app of a worker that writes the warehouse; it logs errors to `errors`. */
  worker(parts?: Parts): Promise<{ app: App; errors: unknown[] }>;
  /** Ten minutes later, a worker comes to it. Returns what it has logged. */
  run(parts?: Parts): Promise<unknown[]>;
  /** At this moment, a worker comes to it. */
  runNow(parts?: Parts): Promise<unknown[]>;
  exportAll(): Promise<void>;
  /** The parts of an event that is played now. */
  game(score: number): { at: Date; properties: { score: number; game: string } };
  /** A project with files of one event each. */
  aProjectWith(files: number): Promise<{ projectId: string; ids: string[] }>;
  /** Takes from events what identifies a person, as an erasure does. */
  erase(projectId: string, ids: readonly string[]): Promise<void>;
  /** Asserts that the directory has the files that are listed and not replaced, and no others. */
  assertListed(): void;
};

/** Opens a stage for each test of a `describe`. */
export const warehouseStage = (): WarehouseStage => {
  const stage = {} as WarehouseStage;
  let database: Database;
  let dir: Awaited<ReturnType<typeof temporaryDir>>;
  beforeEach(async () => {
    database = await openMemoryDatabase();
    stage.nowMs = Date.now();
    stage.domain = openDomain(database, () => new Date(stage.nowMs));
    dir = await temporaryDir();
    stage.root = dir.path;
    stage.warehouse = await openWarehouse(dir.path);
  });
  afterEach(async () => {
    stage.warehouse.close();
    await database.close();
    await dir.remove();
  });

  const worker: WarehouseStage["worker"] = async ({
    store = createDirectoryStore(stage.root),
    transact = stage.domain.transact,
  } = {}) => {
    const { app } = await startApp();
    const errors: unknown[] = [];
    const log = Object.create(app.log, {
      error: { value: ({ err }: { err: unknown }) => errors.push(err) },
    }) as App["log"];
    const warehouse = { store: async () => store, everyMs: 300_000, lagMs: 120_000 };
    return { app: { ...app, log, clock: () => new Date(stage.nowMs), transact, warehouse }, errors };
  };
  const runNow: WarehouseStage["runNow"] = async (parts) => {
    const { app, errors } = await worker(parts);
    await createExportWarehouse().run(app, "*");
    return errors;
  };
  const run: WarehouseStage["run"] = (parts) => {
    stage.nowMs += 600_000;
    return runNow(parts);
  };
  const exportAll = async (): Promise<void> => {
    assert.deepEqual([...(await run()), ...(await run())], []);
  };
  const game = (score: number) => ({ at: new Date(stage.nowMs), properties: { score, game: "a" } });
  return Object.assign(stage, {
    worker,
    run,
    runNow,
    exportAll,
    game,
    aProjectWith: async (files: number) => {
      const projectId = await aHistoryProject(stage.domain, { boards: [] });
      await run();
      const ids: string[] = [];
      for (let n = 0; n < files; n++) {
        ids.push(...(await play(stage.domain, projectId, { user: "ada", events: [game(n % 10)] })));
        assert.deepEqual(await run(), []);
      }
      assert.equal(manifestIn(stage.root).length, files);
      return { projectId, ids };
    },
    erase: (projectId: string, ids: readonly string[]) =>
      stage.domain.transact(async ({ db }) => {
        const refs = sql`unnest(${`{${ids.join(",")}}`}::uuid[])`;
        await sql`update tracked_events set properties = '{}'
          where project_id = ${projectId}::uuid and id in (select ${refs})`.execute(db);
        await insertWarehouseChanges(projectId, "ERASED", sql`select ${refs} as ref`).execute(db);
      }),
    assertListed: () => {
      const listed = manifestIn(stage.root);
      const replaced = new Set(listed.map(({ replaces }) => replaces));
      const due = listed.map(({ path }) => path).filter((path) => !replaced.has(path));
      const there = [...filesIn(stage.root).keys()].filter((path) => !path.startsWith("manifest/"));
      assert.deepEqual(there.toSorted(), due.toSorted());
    },
  });
};
