import assert from "node:assert/strict";
import { sql } from "kysely";
import { StoreError, type WarehouseStore } from "../../src/domain/analytics/warehouse/store.ts";
import { DEFAULT_STRATEGY } from "../../src/domain/kernel/events/events.ts";
import { insertWarehouseChanges } from "../../src/domain/kernel/events/warehouse-changes.ts";
import { mergePlayers } from "../../src/domain/player-lifecycle/alias.ts";
import { requeueDueEvents } from "../../src/domain/progression/queue.ts";
import { retryEvent } from "../../src/domain/tracking/events.ts";
import { createDirectoryStore } from "../../src/platform/warehouse/directory.ts";
import { failed, MADE_TO_FAIL, processAll, publish } from "../support/domain/domain.ts";
import { aHistoryProject, play, takeBack } from "../support/reverts/histories.ts";
import {
  assertLoaded,
  manifestIn,
  type Parts,
  statementsOf,
  warehouseStage,
} from "../support/warehouse/stage.ts";

describe("files for a warehouse", () => {
  const stage = warehouseStage();
  const { run, exportAll, game } = stage;

  const merge = async (projectId: string, target: string, source: string): Promise<object> => {
    const [targetId, sourceId] = [
      await stage.domain.addPlayer(projectId, target),
      await stage.domain.addPlayer(projectId, source),
    ];
    const cause = { actor: "test" };
    const strategy = DEFAULT_STRATEGY;
    await stage.domain.transact((work) =>
      mergePlayers(work, { projectId, targetId, sourceId, strategy, cause }),
    );
    return { source: sourceId, target: targetId };
  };

  it("have each event with its effects once, and what is reverted afterwards again", async () => {
    const projectId = await aHistoryProject(stage.domain);
    const other = await aHistoryProject(stage.domain);
    const ids = await play(stage.domain, projectId, { user: "ada", events: [game(3), game(8), game(9)] });
    await play(stage.domain, other, { user: "ada", events: [game(2)] });
    await exportAll();
    await stage.warehouse.load();
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), 3);
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, other), 1);
    await takeBack(stage.domain, projectId, ids[1]!);
    await play(stage.domain, projectId, { user: "bob", events: [game(1)] });
    await exportAll();
    await stage.warehouse.load();
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), 4);
    const [row] = await stage.warehouse.ask(`select "status" from events where "eventId" = '${ids[1]}'`);
    assert.deepEqual(row, { status: "REVERTED" });
    await stage.warehouse.load();
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), 4, "loaded again");
    const sums = await stage.warehouse.ask(statementsOf("ask"));
    assert.ok(sums.some(({ asset }) => asset === "XP"));
  });

  it("are as the manifest says wherever a worker dies, and the next one ends what it has begun", async () => {
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    let deaths = 0;
    for (let reached = true; reached; deaths++) {
      // Something of each kind: an event, a change, a file that is written anew, a merge, and what it moves.
      const ids = await play(stage.domain, projectId, { user: "ada", events: [game(3), game(8)] });
      await exportAll();
      await play(stage.domain, projectId, { user: "bob", events: [game(1)] });
      await takeBack(stage.domain, projectId, ids[1]!);
      await play(stage.domain, projectId, { user: `bob-${deaths}`, events: [game(2)] });
      await merge(projectId, "ada", `bob-${deaths}`);
      await stage.domain.transact((work) =>
        insertWarehouseChanges(projectId, "ERASED", sql`select ${ids[0]!}::uuid as ref`).execute(work.db),
      );
      await stage.domain.sql`update tracked_events set properties = ${JSON.stringify({ deaths })}::jsonb
        where project_id = ${projectId}::uuid and id = ${ids[0]!}::uuid`;
      let left = deaths;
      const count = (): void => {
        if (left-- <= 0) throw new Error("died");
      };
      const store = createDirectoryStore(stage.root);
      const dying: Parts = {
        transact: async (work) => {
          count();
          return stage.domain.transact(work);
        },
        store: {
          ...store,
          put: async (path, body) => {
            count();
            await store.put(path, body);
            count();
          },
          remove: async (path) => {
            count();
            await store.remove(path);
          },
        },
      };
      reached = (await run(dying).catch((error: unknown) => error)) instanceof Error;
      // At any time.
      if (manifestIn(stage.root).length > 0) await stage.warehouse.load();
      await run();
      await run();
      await stage.warehouse.load();
      await assertLoaded(stage.domain, stage.warehouse, projectId);
      stage.assertListed();
    }
    assert.ok(deaths > 25, `${deaths} places`);
  });

  it("are written by one worker of a project at a time; one that wakes up late lists nothing", async () => {
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    await run();
    await play(stage.domain, projectId, { user: "ada", events: [game(3)] });
    const store = createDirectoryStore(stage.root);
    let others = 0;
    const slow: WarehouseStore = {
      ...store,
      put: async (path, body) => {
        if (path.startsWith("events/") && others++ === 0) {
          stage.nowMs -= 600_000;
          await run();
          assert.deepEqual(manifestIn(stage.root), [], "nobody else writes it meanwhile");
          // Its lease is over.
          await run();
          assert.equal(manifestIn(stage.root).length, 1);
        }
        await store.put(path, body);
      },
    };
    assert.deepEqual(await run({ store: slow }), []);
    stage.assertListed();
    await exportAll();
    assert.equal(manifestIn(stage.root).length, 1);
    await stage.warehouse.load();
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), 1);
  });

  it("have a failed event that was tried again as it is then, and none that waits", async () => {
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    const [id] = await play(stage.domain, projectId, { user: "ada", events: [{ ...game(3), type: "lost" }] });
    await failed(stage.domain, projectId, id!);
    await exportAll();
    await stage.warehouse.load();
    const statuses = async (): Promise<unknown> =>
      stage.warehouse.ask(`select "status", "error" from events`);
    assert.deepEqual(await statuses(), [{ status: "FAILED", error: MADE_TO_FAIL }]);
    await stage.domain.transact((work) => retryEvent(work, projectId, id!));
    await stage.domain.track(projectId, [{ user: "bob", type: "won", properties: { score: 1, game: "a" } }]);
    await exportAll();
    await stage.warehouse.load();
    assert.deepEqual(await statuses(), [{ status: "FAILED", error: MADE_TO_FAIL }], "both wait");
    await processAll(stage.domain);
    await exportAll();
    await stage.warehouse.load();
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), 2);
    assert.deepEqual(await statuses(), [
      { status: "PROCESSED", error: null },
      { status: "PROCESSED", error: null },
    ]);
  });

  it("are not held up by what a rule has delayed, which comes again once it is done, or erased", async () => {
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    const later = { type: "grant_xp", amount: 7, delaySeconds: 86_400 };
    const triggers = [{ kind: "EVENT", eventTypes: ["won"] }];
    await publish(stage.domain, projectId, { key: "later", triggers, actions: [later] });
    await play(stage.domain, projectId, { user: "ada", events: [game(3)] });
    await exportAll();
    await play(stage.domain, projectId, { user: "bob", events: [game(1)] });
    await exportAll();
    await stage.warehouse.load();
    const waiting = async (): Promise<unknown> =>
      stage.warehouse.ask(`select "externalUserId" as name, "properties"->>'mark' as mark from events
        where "status" = 'PENDING' order by "eventId"`);
    assert.deepEqual(await waiting(), [
      { name: "ada", mark: null },
      { name: "bob", mark: null },
    ]);
    await stage.domain.transact(async ({ db }) => {
      const { rows } = await sql<{ id: string }>`
        update tracked_events set properties = properties || '{"mark": "anew"}'
        where project_id = ${projectId}::uuid and external_user_id = 'bob' and event_type like 'system.%'
        returning id::text`.execute(db);
      const ref = sql`select ${rows[0]!.id}::uuid as ref`;
      await insertWarehouseChanges(projectId, "ERASED", ref).execute(db);
    });
    await exportAll();
    await stage.warehouse.load();
    const both = [
      { name: "ada", mark: null },
      { name: "bob", mark: "anew" },
    ];
    assert.deepEqual(await waiting(), both);
    stage.nowMs += 86_400_000;
    await stage.domain.transact(requeueDueEvents);
    await exportAll();
    await stage.warehouse.load();
    assert.deepEqual(await waiting(), both, "they are in the queue");
    await processAll(stage.domain);
    await exportAll();
    await stage.warehouse.load();
    assert.deepEqual(await waiting(), []);
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), 4);
  });

  it("say which players have become one, also before the warehouse was switched on", async () => {
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    const merged = [await merge(projectId, "ada", "ada-2")];
    await exportAll();
    merged.push(await merge(projectId, "ada", "ada-3"));
    await exportAll();
    await stage.warehouse.load();
    await stage.warehouse.load();
    assert.deepEqual(
      await stage.warehouse.ask(
        `select "sourcePlayerId" as source, "targetPlayerId" as target from merges order by "at"`,
      ),
      merged,
    );
  });

  it("are tried again when the store has failed, which is asked for two projects a run", async () => {
    const projectIds = [
      await aHistoryProject(stage.domain, { boards: [] }),
      await aHistoryProject(stage.domain, { boards: [] }),
      await aHistoryProject(stage.domain, { boards: [] }),
    ];
    await run();
    for (const projectId of projectIds)
      await play(stage.domain, projectId, { user: "ada", events: [game(3)] });
    const store = createDirectoryStore(stage.root);
    let asked = 0;
    const broken: WarehouseStore = {
      ...store,
      put: async () => {
        asked++;
        throw new StoreError("no space is left");
      },
    };
    const error = "StoreError: no space is left";
    assert.deepEqual((await run({ store: broken })).map(String), [error, error]);
    assert.equal(asked, 2);
    assert.deepEqual(manifestIn(stage.root), []);
    await exportAll();
    await stage.warehouse.load();
    for (const projectId of projectIds)
      assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), 1);
  });

  it("are listed only if the store has all of them", async () => {
    const projectId = await aHistoryProject(stage.domain, { boards: [] });
    await run();
    await play(stage.domain, projectId, { user: "ada", events: [game(3)] });
    const store = createDirectoryStore(stage.root);
    const short: WarehouseStore = {
      ...store,
      put: (path, body) => store.put(path, path.startsWith("events/") ? body.subarray(1) : body),
    };
    assert.match(String(await run({ store: short })), /bytes in the store, and not/);
    assert.deepEqual(manifestIn(stage.root), []);
    await exportAll();
    await stage.warehouse.load();
    assert.equal(await assertLoaded(stage.domain, stage.warehouse, projectId), 1);
  });
});
