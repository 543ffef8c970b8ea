import assert from "node:assert/strict";
import { readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sql } from "kysely";
import { openExport } from "../../src/domain/analytics/warehouse/progress.ts";
import { StoreError, type WarehouseStore } from "../../src/domain/analytics/warehouse/store.ts";
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

describe("files for a warehouse, where a worker or the store fails", () => {
  const stage = warehouseStage();

  const ofEvents = (path: string): boolean => path.startsWith("events/");
  const refusing = (path: string): StoreError =>
    new StoreError(`GET ${path}: 403 InvalidObjectState`, { isOfFile: true });
  const loadAndCheck = async (projectId: string, events: number): Promise<void> => {
    await stage.warehouse.load();
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), events);
  };
  const countOf = (table: string): Promise<number> =>
    stage.domain.transact(async ({ db }) => {
      const { rows } = await sql<{ n: number }>`
        select count(*)::int as n from ${sql.table(table)}`.execute(db);
      return rows[0]!.n;
    });
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

  it("are the worker's for as long as it lists and removes them, however slow each one is", async () => {
    const { projectId, ids } = await stage.aProjectWith(4);
    await stage.erase(projectId, ids);
    const store = createDirectoryStore(stage.root);
    let [slow, written] = [0, 0];
    const counting: WarehouseStore = {
      ...store,
      put: async (path, body) => {
        written++;
        await store.put(path, body);
      },
    };
    const wait = async (): Promise<void> => {
      stage.nowMs += 200_000;
      slow++;
      assert.deepEqual(await stage.runNow({ store: counting }), []);
    };
    const waiting: WarehouseStore = {
      ...store,
      put: async (path, body) => {
        if (!ofEvents(path)) await wait();
        await store.put(path, body);
      },
      remove: async (path) => {
        await wait();
        await store.remove(path);
      },
    };
    assert.deepEqual(await stage.run({ store: waiting }), []);
    assert.ok(slow >= 8, `${slow} slow operations`);
    assert.equal(written, 0, "nobody else wrote the project");
    stage.assertListed();
    await loadAndCheck(projectId, 4);
  });

  it("are made anew over several turns after an erasure that concerns many", async () => {
    const files = 24;
    const { projectId, ids } = await stage.aProjectWith(files);
    await stage.erase(projectId, ids);
    stage.nowMs += 600_000;
    const { app, errors } = await stage.worker();
    const turns: number[] = [];
    for (let isMore = true; isMore;) {
      const before = manifestIn(stage.root).length;
      const opened = await app.transact((work) => openExport(work, projectId, LAG_MS));
      assert.ok(opened);
      const turn = new WarehouseTurn(app, createDirectoryStore(stage.root), opened);
      isMore = await new WarehouseFiles(app, turn, LAG_MS).write();
      turns.push(manifestIn(stage.root).length - before);
      stage.nowMs += 600_000;
    }
    assert.deepEqual(errors, []);
    assert.ok(Math.max(...turns) <= 20, `files of each turn: ${turns.join(", ")}`);
    // And one that tells of the changes.
    assert.equal(
      turns.reduce((sum, one) => sum + one),
      files + 1,
    );
    stage.assertListed();
    await loadAndCheck(projectId, files);
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

    it("have what a second erasure takes from it as well", async () => {
      const projectId = await aHistoryProject(stage.domain, { boards: [] });
      await stage.run();
      const events = [stage.game(0), stage.game(1)];
      const [one, other] = await play(stage.domain, projectId, { user: "ada", events });
      await stage.run();
      const store = createDirectoryStore(stage.root);
      const bad = manifestIn(stage.root)[0]!.path;
      const archived: WarehouseStore = { ...store, get: () => Promise.reject(refusing(bad)) };
      await stage.erase(projectId, [one!]);
      assert.equal((await stage.run({ store: archived })).length, 1);
      await stage.erase(projectId, [other!]);
      assert.deepEqual(await stage.run(), []);
      assert.deepEqual(remaining(), []);
      stage.assertListed();
      await loadAndCheck(projectId, 2);
    });

    it("go on where the store does not answer for it", async () => {
      const { projectId } = await erased();
      const store = createDirectoryStore(stage.root);
      const silent: WarehouseStore = {
        ...store,
        get: () => Promise.reject(new StoreError("no answer in time")),
      };
      assert.deepEqual((await stage.run({ store: silent })).map(String), ["StoreError: no answer in time"]);
      assert.equal(manifestIn(stage.root).length, 4, "the event that came since is listed");
      await stage.exportAll();
      assert.deepEqual(remaining(), []);
      stage.assertListed();
      await loadAndCheck(projectId, 4);
    });

    it("go on where a replaced one cannot be removed, which is tried again", async () => {
      const { projectId, bad } = await erased();
      const store = createDirectoryStore(stage.root);
      const locked: WarehouseStore = {
        ...store,
        remove: async (path) => {
          if (path === bad) throw refusing(path);
          await store.remove(path);
        },
      };
      assert.equal((await stage.run({ store: locked })).length, 1);
      assert.deepEqual(remaining(), [bad]);
      await loadAndCheck(projectId, 4);
      assert.deepEqual(await stage.runNow(), []);
      assert.deepEqual(await stage.run(), []);
      stage.assertListed();
    });
  });

  it("begin in an empty place and in no other: an earlier manifest would hide what is written", async () => {
    const { projectId } = await stage.aProjectWith(1);
    const begun = filesIn(stage.root);
    await stage.domain.transact(({ db }) =>
      sql`truncate warehouse_projects, warehouse_changes, warehouse_parts`.execute(db),
    );
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
