import assert from "node:assert/strict";
import { sql } from "kysely";
import { forgetStopped } from "../../src/domain/analytics/warehouse/manifest.ts";
import { openExport } from "../../src/domain/analytics/warehouse/progress.ts";
import { StoreError, type WarehouseStore } from "../../src/domain/analytics/warehouse/store.ts";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import { mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import { pruneEnded } from "../../src/jobs/sweeps.ts";
import { WarehouseFiles } from "../../src/jobs/warehouse.ts";
import { WarehouseTurn } from "../../src/jobs/warehouse-turn.ts";
import { createDirectoryStore } from "../../src/platform/warehouse/directory.ts";
import { aHistoryProject, play } from "../support/reverts/histories.ts";
import { filesIn, manifestIn } from "../support/warehouse/export.ts";
import { warehouseStage } from "../support/warehouse/stage.ts";
import { assertLoaded } from "../support/warehouse/truth.ts";

const DAY_MS = 86_400_000;
const LAG_MS = 120_000;

describe("files for a warehouse, where more than one is refused", () => {
  const stage = warehouseStage();

  const loadAndCheck = async (projectId: string, events: number): Promise<void> => {
    await stage.warehouse.load();
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), events);
  };
  const change = (statement: string): Promise<unknown> =>
    stage.domain.transact(({ db }) => sql.raw(statement).execute(db));
  const rowsOf = (table: string): Promise<number> =>
    stage.domain.transact(async ({ db }) => {
      const { rows } = await sql<{ n: number }>`
        select count(*)::int as n from ${sql.table(table)}`.execute(db);
      return rows[0]!.n;
    });
  /** Files that have what was erased. */
  const remaining = (): string[] =>
    [...filesIn(stage.root)].filter(([, text]) => /"score" ?: ?[0-5]\b/.test(text)).map(([path]) => path);
  const listed = (kind: string): number =>
    manifestIn(stage.root).filter(({ path, replaces }) => path.startsWith(kind) && replaces === null).length;
  /** Some files, an erasure from each, and an event that came since. */
  const erased = async (files: number): Promise<{ projectId: string; paths: string[] }> => {
    const { projectId, ids } = await stage.aProjectWith(files);
    const paths = manifestIn(stage.root).map(({ path }) => path);
    await stage.erase(projectId, ids);
    await play(stage.domain, projectId, { user: "bob", events: [stage.game(7)] });
    return { projectId, paths };
  };
  /** A store that refuses to give or to remove some files; `asked` are those that it was asked for. */
  const refusing = (
    operation: "get" | "remove",
    errorOf: (path: string) => StoreError | undefined,
  ): { store: WarehouseStore; asked: string[] } => {
    const store = createDirectoryStore(stage.root);
    const asked: string[] = [];
    const refuse = async (path: string): Promise<undefined> => {
      asked.push(path);
      const error = errorOf(path);
      if (error) throw error;
    };
    const get = async (path: string) => (await refuse(path)) ?? store.get(path);
    const remove = async (path: string) => (await refuse(path)) ?? store.remove(path);
    return { store: { ...store, ...(operation === "get" ? { get } : { remove }) }, asked };
  };
  const denied = (path: string): StoreError => new StoreError(`${path}: AccessDenied`, { isOfFile: true });

  it("are asked for no third time when two in a row are not given, and events go on", async () => {
    const { projectId, paths } = await erased(5);
    const { store, asked } = refusing("get", denied);
    const errors = await stage.run({ store });
    assert.deepEqual(asked, paths.slice(0, 2));
    assert.equal(errors.length, 3);
    assert.match(String(errors[2]), /has refused to give 2 files in a row/);
    assert.equal(listed("events"), 6, "the event that came since is listed");
    assert.deepEqual(await stage.runNow({ store }), [], "the project is tried again later");
    await stage.exportAll();
    await stage.exportAll();
    assert.deepEqual(remaining(), []);
    stage.assertListed();
    await loadAndCheck(projectId, 6);
  });

  it("hold up no erasure from others where all of a time are archived", async () => {
    const { projectId, paths } = await erased(5);
    const archived = paths.slice(0, 4);
    const { store } = refusing("get", (path) =>
      archived.includes(path) ? new StoreError(`${path} is archived`, { isArchived: true }) : undefined,
    );
    assert.equal((await stage.run({ store })).length, archived.length);
    assert.deepEqual(remaining(), archived.toSorted());
    await stage.exportAll();
    assert.deepEqual(remaining(), []);
    await loadAndCheck(projectId, 6);
  });

  it("are tried two at a turn where none can be removed, and all others are written", async () => {
    const { projectId } = await erased(5);
    const { store, asked } = refusing("remove", denied);
    assert.equal((await stage.run({ store })).length, 2);
    assert.equal(asked.length, 2);
    assert.deepEqual([listed("events"), listed("changes")], [6, 1]);
    await loadAndCheck(projectId, 6);
    for (let n = 0; n < 3; n++) assert.deepEqual(await stage.run(), []);
    assert.deepEqual(remaining(), []);
    stage.assertListed();
  });

  it("are searched on from where the store failed, and not from the first again", async () => {
    const { projectId, paths } = await erased(3);
    const errorOf = (path: string): StoreError | undefined => {
      if (path === paths[0]) return new StoreError(`${path} is archived`, { isArchived: true });
      return path === paths[2] ? new StoreError("no answer in time") : undefined;
    };
    const failing = refusing("get", errorOf);
    assert.equal((await stage.run({ store: failing.store })).length, 2);
    assert.deepEqual(failing.asked, paths);
    stage.nowMs += 60_000;
    const again = refusing("get", errorOf);
    assert.equal((await stage.runNow({ store: again.store })).length, 1);
    assert.deepEqual(again.asked, [paths[2]]);
    await stage.exportAll();
    assert.deepEqual(remaining(), []);
    await loadAndCheck(projectId, 4);
  });

  it("of new events and merges are written in each turn of an erasure from many", async () => {
    const { projectId } = await erased(22);
    const [targetId, sourceId] = [
      await stage.domain.addPlayer(projectId, "eve"),
      await stage.domain.addPlayer(projectId, "eve-2"),
    ];
    await stage.domain.transact((work) =>
      mergePlayers(work, {
        projectId,
        targetId,
        sourceId,
        strategy: DEFAULT_STRATEGY,
        cause: { actor: "test" },
      }),
    );
    stage.nowMs += 600_000;
    const { app, errors } = await stage.worker();
    const opened = await app.transact((work) => openExport(work, projectId, LAG_MS));
    assert.ok(opened);
    const turn = new WarehouseTurn(app, createDirectoryStore(stage.root), opened);
    assert.equal(await new WarehouseFiles(app, turn, LAG_MS).write(), true);
    assert.equal(listed("changes"), 0, "the erasure is not at its end");
    assert.deepEqual([listed("merges"), listed("events")], [1, 23]);
    stage.nowMs += 600_000;
    await stage.exportAll();
    assert.deepEqual(errors, []);
    assert.deepEqual(remaining(), []);
    stage.assertListed();
    await loadAndCheck(projectId, 23);
  });

  it("of one project wait for no others whose places have files of another time", async () => {
    const taken = [await stage.aProjectWith(1)];
    for (let n = 0; n < 2; n++) {
      const projectId = await aHistoryProject(stage.domain, { boards: [] });
      await play(stage.domain, projectId, { user: "ada", events: [stage.game(n)] });
      taken.push({ projectId, ids: [] });
    }
    await stage.exportAll();
    await change("truncate warehouse_projects, warehouse_changes, warehouse_parts");
    await stage.run();
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    await play(stage.domain, projectId, { user: "bob", events: [stage.game(3)] });
    await stage.run();
    await change("update warehouse_projects set retry_at = null");
    const errors = await stage.run();
    assert.equal(errors.length, taken.length);
    for (const error of errors) assert.match(String(error), /begins in an empty place/);
    assert.equal(listed(`events/project_id=${projectId}`), 1);
    assert.deepEqual(await stage.runNow(), [], "they are tried again later");
  });

  it("that are forgotten in part are forgotten to the end, also when the warehouse is on again", async () => {
    const { projectId, ids } = await stage.aProjectWith(2);
    await stage.erase(projectId, ids);
    stage.nowMs += 8 * DAY_MS;
    const isMore = await stage.domain.transact((work) => forgetStopped(work, { limit: 1, isOff: true }));
    assert.equal(isMore, true);
    assert.deepEqual([await rowsOf("warehouse_changes"), await rowsOf("warehouse_parts")], [1, 1]);
    await stage.erase(projectId, ids);
    assert.equal(await rowsOf("warehouse_changes"), 1, "nothing is noted any more");
    await play(stage.domain, projectId, { user: "bob", events: [stage.game(7)] });
    const before = [...filesIn(stage.root).keys()];
    assert.deepEqual(await stage.run(), []);
    assert.equal(await stage.domain.transact((work) => openExport(work, projectId, LAG_MS)), undefined);
    assert.deepEqual([...filesIn(stage.root).keys()], before, "nobody goes on with what is left");
    const { app } = await stage.worker();
    await pruneEnded.run(app, "*");
    for (const table of ["warehouse_changes", "warehouse_parts", "warehouse_projects"])
      assert.equal(await rowsOf(table), 0, table);
    assert.deepEqual(await stage.run(), []);
    const [error] = await stage.run();
    assert.match(String(error), /begins in an empty place/, "it is begun anew");
  });

  it("whose entries of the manifest are lost are an error and not an endless search", async () => {
    const { projectId } = await stage.aProjectWith(2);
    await change("update warehouse_projects set published = 1");
    await change("delete from warehouse_parts where seq = 2");
    const [error, ...others] = await stage.run();
    assert.match(String(error), new RegExp(`entries 2 to 2 of the manifest of ${projectId} are not in`));
    assert.deepEqual(others, []);
  });
});
