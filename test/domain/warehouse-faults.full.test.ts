import assert from "node:assert/strict";
import { mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { sql } from "kysely";
import { forgetStopped } from "../../src/domain/analytics/warehouse/manifest.ts";
import { StoreError, type WarehouseStore } from "../../src/domain/analytics/warehouse/store.ts";
import { openExport } from "../../src/domain/analytics/warehouse/progress.ts";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import { mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import { pruneEnded } from "../../src/jobs/sweeps.ts";
import { WarehouseTurn } from "../../src/jobs/warehouse-turn.ts";
import { WarehouseFiles } from "../../src/jobs/warehouse.ts";
import { createDirectoryStore } from "../../src/platform/warehouse/directory.ts";
import { createS3Store } from "../../src/platform/warehouse/s3.ts";
import { startApp } from "../support/app/app.ts";
import { openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import { startTcpProxy } from "../support/faults/tcp-proxy.ts";
import { madeOnce } from "../support/made.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { aHistoryProject, play, takeBack } from "../support/reverts/histories.ts";
import {
  assertLoaded,
  exportNow,
  filesIn,
  manifestIn,
  openWarehouse,
  warehouseStage,
} from "../support/warehouse/stage.ts";
import { startS3Server } from "../support/warehouse/s3-server.ts";

const TIMEOUT_MS = 400;

describe("files for a warehouse in a bucket", () => {
  let dir: Awaited<ReturnType<typeof temporaryDir>>;

  const server = madeOnce(() => startS3Server());
  const proxy = madeOnce(() => startTcpProxy("127.0.0.1", server.port));
  const database = madeOnce(openMemoryDatabase);
  const domain = madeOnce(() => openDomain(database));
  before(async () => {
    dir = await temporaryDir();
  });
  after(async () => {
    await proxy.stop();
    await server.stop();
    await database.close();
    await dir.remove();
  });

  /** Reads each entry of the manifest of a project and the files that it has, into a directory. */
  const download = async (store: WarehouseStore, projectId: string): Promise<void> => {
    for (let sequence = 1; ; sequence++) {
      const path = `manifest/project_id=${projectId}/${String(sequence).padStart(12, "0")}.json`;
      const entry = await store.get(path);
      if (!entry) return;
      const { path: file } = JSON.parse(entry.toString()) as { path: string };
      const body = await store.get(file);
      for (const [name, bytes] of [
        [path, entry],
        [file, body],
      ] as const) {
        if (!bytes) continue;
        mkdirSync(dirname(join(dir.path, name)), { recursive: true });
        writeFileSync(join(dir.path, name), bytes);
      }
    }
  };

  it("are loaded as those of a directory, also when the store has hung in between", async () => {
    const { app } = await startApp();
    const own = { ...app, transact: domain.transact };
    const store = createS3Store(server.settings);
    const behind = createS3Store(
      { ...server.settings, endpoint: `http://127.0.0.1:${proxy.port}` },
      TIMEOUT_MS,
    );
    const projectId = await aHistoryProject(domain, { boards: [] });
    const game = (score: number) => ({ at: new Date(), properties: { score, game: "a" } });
    const ids = await play(domain, projectId, { user: "ada", events: [game(3), game(8)] });
    proxy.halfOpen();
    await assert.rejects(exportNow(own, behind), /no answer in time/);
    await proxy.restore();
    await exportNow(own, store);
    assert.equal(
      await store.size(`manifest/project_id=${projectId}/000000000001.json`),
      undefined,
      "not yet",
    );
    await domain.sql`update warehouse_projects set retry_at = null`;
    await exportNow(own, store);
    await takeBack(domain, projectId, ids[1]!);
    await exportNow(own, store);
    await download(store, projectId);
    const warehouse = await openWarehouse(dir.path);
    await warehouse.load();
    assert.equal(await assertLoaded(domain, warehouse, projectId), 2);
    const [row] = await warehouse.ask(`select "status" from events where "eventId" = '${ids[1]}'`);
    assert.deepEqual(row, { status: "REVERTED" });
    warehouse.close();
  });
});

const DAY_MS = 86_400_000;

describe("files for a warehouse, where a worker or the store fails", () => {
  const stage = warehouseStage();

  const ofEvents = (path: string): boolean => path.startsWith("events/");
  const refusing = (path: string): StoreError =>
    new StoreError(`GET ${path}: 403 InvalidObjectState`, { isOfFile: true });
  const loadAndCheck = async (projectId: string, events: number): Promise<void> => {
    await stage.warehouse.load();
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), events);
  };
  const countOf = async (table: string): Promise<number> => {
    const rows = await stage.domain.sql<{ n: number }>`
      select count(*)::int as n from ${sql.table(table)}`;
    return rows[0]!.n;
  };
  /** Ends a worker between two operations of the store. */
  const diesAfter = (store: WarehouseStore, is: (path: string) => boolean): WarehouseStore => ({
    ...store,
    put: async (path, body) => {
      await store.put(path, body);
      if (is(path)) throw new StoreError("the worker died");
    },
  });

  it("stay where they are when a worker wakes up that is late to remove one of the same events", async () => {
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    await stage.run();
    await play(stage.domain, projectId, { user: "ada", events: [stage.game(3)] });
    const store = createDirectoryStore(stage.root);
    assert.equal((await stage.run({ store: diesAfter(store, ofEvents) })).length, 1);
    let removals = 0;
    const late: WarehouseStore = {
      ...store,
      remove: async (path) => {
        // Its lease is over.
        if (removals++ === 0) assert.deepEqual(await stage.run(), []);
        await store.remove(path);
      },
    };
    assert.deepEqual(await stage.run({ store: late }), []);
    assert.equal(removals, 1);
    assert.equal(manifestIn(stage.root).length, 1);
    stage.assertListed();
    await loadAndCheck(projectId, 1);
  });

  it("are removed by the worker that stored them after it had lost the project", async () => {
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    await stage.run();
    await play(stage.domain, projectId, { user: "ada", events: [stage.game(3)] });
    const store = createDirectoryStore(stage.root);
    let others = 0;
    const slow: WarehouseStore = {
      ...store,
      put: async (path, body) => {
        if (ofEvents(path) && others++ === 0) {
          await play(stage.domain, projectId, { user: "bob", events: [stage.game(8)] });
          assert.deepEqual(await stage.run(), []);
        }
        await store.put(path, body);
      },
    };
    assert.deepEqual(await stage.run({ store: slow }), []);
    assert.equal(others, 1);
    stage.assertListed();
    await loadAndCheck(projectId, 2);
  });

  describe("of which an old one cannot be read", () => {
    /** Three files, an erasure from each, and an event that came since. */
    const erased = async (): Promise<{ projectId: string; bad: string }> => {
      const { projectId, ids } = await stage.aProjectWith(3);
      await stage.erase(projectId, ids);
      await play(stage.domain, projectId, { user: "bob", events: [stage.game(7)] });
      return { projectId, bad: manifestIn(stage.root)[0]!.path };
    };
    const remaining = (): string[] =>
      [...filesIn(stage.root)].filter(([, text]) => /"score" ?: ?[0-2]\b/.test(text)).map(([path]) => path);

    it("go on, and the erasures are made up for when it can be read", async () => {
      const { projectId, bad } = await erased();
      assert.equal(remaining().length, 3);
      const store = createDirectoryStore(stage.root);
      const archived: WarehouseStore = {
        ...store,
        get: async (path) => {
          if (path === bad) throw refusing(path);
          return store.get(path);
        },
      };
      assert.deepEqual((await stage.run({ store: archived })).map(String), [String(refusing(bad))]);
      assert.deepEqual(remaining(), [bad]);
      await loadAndCheck(projectId, 4);
      assert.equal((await stage.run({ store: archived })).length, 1, "it is tried again");
      assert.deepEqual(await stage.runNow({ store: archived }), [], "but not at once");
      assert.deepEqual(await stage.run(), []);
      assert.deepEqual(remaining(), []);
      stage.assertListed();
      assert.deepEqual(await stage.run(), []);
      await loadAndCheck(projectId, 4);
    });

    it("go on too where its content is damaged, until somebody mends or removes it", async () => {
      const { projectId, bad } = await erased();
      const path = join(stage.root, bad);
      const whole = readFileSync(path);
      truncateSync(path, whole.length - 20);
      const [error, ...others] = await stage.run();
      assert.match(String(error), /StoreError: events\/.* is not as it was written: unexpected end of file/);
      assert.deepEqual(others, []);
      writeFileSync(path, whole);
      assert.deepEqual(remaining(), [bad]);
      assert.deepEqual(await stage.run(), []);
      assert.deepEqual(remaining(), []);
      await loadAndCheck(projectId, 4);
    });
  });

  it("begin in an empty place and in no other: an earlier manifest would hide what is written", async () => {
    const { projectId } = await stage.aProjectWith(1);
    const begun = filesIn(stage.root);
    await stage.domain.sql`truncate warehouse_projects, warehouse_changes, warehouse_parts`;
    assert.deepEqual(await stage.run(), []);
    const [error, ...others] = await stage.run();
    assert.match(
      String(error),
      /manifest\/.*\/000000000001.json of another time: .* begins in an empty place/,
    );
    assert.deepEqual(others, []);
    assert.deepEqual(filesIn(stage.root), begun);
    await loadAndCheck(projectId, 1);
  });

  it("leave no rows behind a week after the warehouse was switched off, and then begin anew", async () => {
    const { projectId, ids } = await stage.aProjectWith(2);
    const { app } = await stage.worker();
    const off = { ...app, warehouse: undefined };
    await stage.erase(projectId, ids);
    stage.nowMs += 6 * DAY_MS;
    await pruneEnded.run(off, "*");
    assert.deepEqual([await countOf("warehouse_changes"), await countOf("warehouse_parts")], [2, 2]);
    stage.nowMs += 2 * DAY_MS;
    await pruneEnded.run(app, "*");
    assert.equal(await countOf("warehouse_changes"), 2, "where it is only broken, nothing is forgotten");
    await pruneEnded.run(off, "*");
    for (const table of ["warehouse_changes", "warehouse_parts", "warehouse_projects"])
      assert.equal(await countOf(table), 0, table);
    await stage.erase(projectId, ids);
    assert.equal(await countOf("warehouse_changes"), 0, "and nothing is noted any more");
  });
});

const LAG_MS = 120_000;

describe("files for a warehouse, where more than one is refused", () => {
  const stage = warehouseStage();

  const loadAndCheck = async (projectId: string, events: number): Promise<void> => {
    await stage.warehouse.load();
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), events);
  };
  const change = (statement: string): Promise<unknown> =>
    stage.domain.transact(({ db }) => sql.raw(statement).execute(db));
  const rowsOf = async (table: string): Promise<number> => {
    const rows = await stage.domain.sql<{ n: number }>`
      select count(*)::int as n from ${sql.table(table)}`;
    return rows[0]!.n;
  };
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
