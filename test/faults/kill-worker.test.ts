import assert from "node:assert/strict";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { openPostgres } from "../../src/platform/database.ts";
import { aTenant } from "../support/app.ts";
import { startServices } from "../support/cluster.ts";
import { eventually } from "../support/eventually.ts";
import { assertInvariants } from "../support/invariants.ts";
import { freePort, kill, laurel, startProcess, temporaryDir } from "../support/process.ts";
import { remote } from "../support/remote.ts";
import {
  defineWorldcup,
  expectedXp,
  hasRealData,
  sorted,
  topTwenty,
  WORLDCUP,
  worldcupTruth,
} from "../support/worldcup.ts";

const KILLS = 20;

describe("kill -9 of a cluster's worker at random moments of an import", function () {
  this.timeout(600_000);

  it("loses nothing and applies nothing twice", async function () {
    if (!hasRealData) this.skip();
    const dir = await temporaryDir();
    const services = await startServices(dir.path);
    const port = await freePort();
    const env = { ...services.env, PORT: String(port) };
    const web = await startProcess(["serve"], { ...env, ROLES: "web" });
    let victim = await startProcess(["worker"], env);
    try {
      const api = remote(`http://127.0.0.1:${port}`);
      const { key } = await aTenant(api);
      await defineWorldcup(api, key);
      const args = [
        "--key",
        key,
        "--url",
        api.url,
        "--json",
        "--batch",
        "50",
        "--state",
        join(dir.path, "state.json"),
      ];
      const importing = laurel(["import", WORLDCUP, ...args]);
      // One worker, mostly dead: the import runs ahead of it, so every kill but the last ones meets it at work.
      for (let kills = 0; kills < KILLS; kills++) {
        await delay(10 + Math.random() * 110);
        await kill(victim);
        victim = await startProcess(["worker"], env);
      }
      assert.equal(await importing.ended, 0, importing.output());
      const database = await openPostgres(services.databaseUrl, 2);
      try {
        await eventually(
          async () => {
            await assertInvariants(database.em);
            return true;
          },
          { timeoutMs: 120_000 },
        );
        const rows: { external_user_id: string; xp: string }[] = await database.em
          .fork()
          .getConnection()
          .execute("select external_user_id, xp from players");
        const xp = rows.map((row) => [row.external_user_id, Number(row.xp)] as const);
        assert.deepEqual(xp.toSorted(), [...(await expectedXp())].toSorted());
      } finally {
        await database.close();
      }
      const { goalsAll, goalsMen, goalsWomen } = worldcupTruth().leaderboards;
      for (const [board, truth] of Object.entries({
        goals: goalsAll,
        "goals-men": goalsMen,
        "goals-women": goalsWomen,
      })) {
        assert.deepEqual(sorted(await topTwenty(api, key, board)), sorted(truth));
      }
    } finally {
      for (const { child } of [web, victim]) child.kill("SIGTERM");
      await Promise.all([web.ended, victim.ended]);
      await services.remove();
      await dir.remove();
    }
  });
});
