import assert from "node:assert/strict";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { openEmbeddedDatabase } from "../../src/platform/database.ts";
import { aTenant } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { seeded } from "../support/seed.ts";
import { assertInvariants, readXp } from "../support/domain/crashing.ts";
import {
  fillDataDir,
  freePort,
  kill,
  laurel,
  startProcess,
  temporaryDir,
} from "../support/processes/process.ts";
import { clientOf } from "../support/http/client.ts";
import {
  defineWorldcup,
  expectedXp,
  hasRealData,
  sorted,
  topTwenty,
  WORLDCUP,
  worldcupTruth,
} from "../support/data/worldcup.ts";

const KILLS = 10;

describe("kill -9 of the embedded server at random moments of an import", function () {
  const random = seeded();

  it("loses nothing and applies nothing twice", async function () {
    if (!hasRealData) this.skip();
    const dir = await temporaryDir();
    const port = await freePort();
    const env = { DATA_DIR: join(dir.path, "data"), PORT: String(port), DEMO: "off", LOG_LEVEL: "error" };
    await fillDataDir(env.DATA_DIR);
    let server = await startProcess(["serve"], env);
    const api = clientOf(`http://127.0.0.1:${port}`);
    const { key } = await aTenant(api);
    await defineWorldcup(api, key);

    const args = [
      "--key",
      key,
      "--url",
      api.url,
      "--json",
      "--batch",
      "100",
      "--state",
      join(dir.path, "state.json"),
    ];
    let isDone = false;
    const importing = (async () => {
      // The importer outlives most restarts; when it gives up, the same command goes on where it stopped.
      for (;;) {
        const run = laurel(["import", WORLDCUP, ...args]);
        if ((await run.ended) === 0) return void (isDone = true);
      }
    })();
    let kills = 0;
    while (kills < KILLS && !isDone) {
      await delay(50 + random.next() * 400);
      await kill(server);
      kills++;
      server = await startProcess(["serve"], env);
    }
    await importing;
    assert.equal(kills, KILLS, "the import was over before the last kill");

    await eventually(
      async () => (await api.get("/api/v1/events?status=PENDING&limit=1", { key })).body.data.length === 0,
      {
        timeoutMs: 120_000,
      },
    );
    const { goalsAll } = worldcupTruth().leaderboards;
    await eventually(async () => {
      assert.deepEqual(sorted(await topTwenty(api, key, "goals")), sorted(goalsAll));
      return true;
    });
    await delay(1_500);
    server.child.kill("SIGTERM");
    assert.equal(await server.ended, 0, server.output());

    const database = await openEmbeddedDatabase(join(env.DATA_DIR, "pglite"));
    try {
      await assertInvariants(database.em);
      assert.deepEqual(await readXp(database.em), [...(await expectedXp())].toSorted());
    } finally {
      await database.close();
      await dir.remove();
    }
  });
});
