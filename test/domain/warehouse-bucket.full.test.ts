import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { sql } from "kysely";
import type { WarehouseStore } from "../../src/domain/analytics/warehouse/store.ts";
import { createS3Store } from "../../src/platform/warehouse/s3.ts";
import { startApp } from "../support/app/app.ts";
import { openDomain } from "../support/domain/domain.ts";
import { openMemoryDatabase } from "../support/domain/memory-database.ts";
import { startTcpProxy } from "../support/faults/tcp-proxy.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { aHistoryProject, play, takeBack } from "../support/reverts/histories.ts";
import { exportNow } from "../support/warehouse/export.ts";
import { openWarehouse } from "../support/warehouse/load.ts";
import { startS3Server } from "../support/warehouse/s3-server.ts";
import { assertLoaded } from "../support/warehouse/truth.ts";
import { madeOnce } from "../support/made.ts";

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
    await domain.transact(({ db }) => sql`update warehouse_projects set retry_at = null`.execute(db));
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
