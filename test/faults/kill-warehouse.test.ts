import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { fillHistory } from "../support/analytics/played-history.ts";
import { findDueExports, registerProjects } from "../../src/domain/analytics/warehouse/progress.ts";
import { stampIdsBy } from "../../src/domain/kernel/ids.ts";
import { type Domain, openDomain } from "../support/domain/domain.ts";
import { eventually } from "../support/eventually.ts";
import { freePort, kill, startProcess } from "../support/processes/process.ts";
import { aHistoryProject, play, takeBack } from "../support/reverts/histories.ts";
import { seeded } from "../support/seed.ts";
import { filesIn, manifestIn } from "../support/warehouse/export.ts";
import { openWarehouse } from "../support/warehouse/load.ts";
import { assertLoaded } from "../support/warehouse/truth.ts";
import { ownServices } from "../support/processes/own-services.ts";

const KILLS = 10;
const HISTORY = { players: 1_000, days: 12, events: 20_000 };

describe("kill -9 of workers that write files for a warehouse", function () {
  this.timeout(500_000);
  const own = ownServices();
  let domain: Domain;
  before(() => {
    domain = openDomain(own.database);
  });

  /** Has workers begin at once, as if two minutes had passed, or five since the last one died. */
  const passTime = (): Promise<unknown> =>
    domain.transact(async (work) => {
      await registerProjects(work);
      await sql`
        update warehouse_projects set registered_at = now() - interval '1 hour',
          leased_until = now() - interval '1 second', moved_at = now() - interval '1 hour'`.execute(work.db);
    });

  /** Whether no worker has a project in hand, and none is to be taken, as is one whose lease has ended. */
  const isAtRest = (): Promise<boolean> =>
    domain.transact(async (work) => {
      const leased = await sql`select 1 from warehouse_projects where leased_until > now()`.execute(work.db);
      const due = await findDueExports(work, { everyMs: 10_000, lagMs: 120_000, limit: 1 });
      return leased.rows.length + due.length === 0;
    });

  it("leaves a manifest from which each event is loaded once, at any time", async () => {
    const random = seeded();
    const root = join(own.path, "warehouse");
    const filled = await domain.addProject();
    const events = await fillHistory(own.db(), filled, { history: HISTORY, endMs: Date.now() - 3_600_000 });
    // Events are left until they are two minutes old.
    stampIdsBy(() => Date.now() - 3_600_000);
    const played = await aHistoryProject(domain, { boards: [] });
    const ids = await play(domain, played, {
      user: "ada",
      events: [3, 8, 9, 1].map((score) => ({ at: new Date(), properties: { score, game: "a" } })),
    });
    await takeBack(domain, played, ids[1]!);
    stampIdsBy(Date.now);
    const env = { ...own.services.env, WAREHOUSE_URL: `file://${root}`, WAREHOUSE_EVERY_SECONDS: "10" };
    const start = async () => startProcess(["worker"], { ...env, PORT: String(await freePort()) });
    const warehouse = await openWarehouse(root);
    for (let n = 0; n < KILLS; n++) {
      await passTime();
      // Two of them want the same projects.
      const workers = await Promise.all([start(), start()]);
      await delay(random.between(0, 900));
      await Promise.all(workers.map(kill));
      if (manifestIn(root).length > 0) await warehouse.load();
    }
    const early = await warehouse.ask(
      'select count(*)::int as n, count(distinct "eventId")::int as d from events',
    );
    assert.equal(early[0]!["n"], early[0]!["d"]);
    assert.ok(Number(early[0]!["n"]) < events, "the kills came before the end");
    await passTime();
    const last = await start();
    await eventually(async () => (await isAtRest()) && manifestIn(root).length > 0, { timeoutMs: 200_000 });
    last.child.kill("SIGTERM");
    assert.equal(await last.ended, 0);
    await warehouse.load();
    assert.equal(await assertLoaded(domain, warehouse, filled), events);
    assert.equal(await assertLoaded(domain, warehouse, played), ids.length);
    const listed = manifestIn(root);
    for (const { path, bytes, sha256 } of listed) {
      const body = readFileSync(join(root, path));
      assert.deepEqual([body.length, createHash("sha256").update(body).digest("hex")], [bytes, sha256]);
    }
    const ofEvents = listed.filter(({ kind }) => kind !== "ledger" && kind !== "rewards");
    const rows = ofEvents.reduce((sum, one) => sum + one.rows, 0);
    const total = await warehouse.ask("select count(*)::int as n from events");
    assert.equal(rows, total[0]!["n"], "no record is in two files");
    const there = [...filesIn(root).keys()].filter((path) => !path.startsWith("manifest/"));
    assert.deepEqual(
      there.toSorted(),
      listed.map(({ path }) => path).toSorted(),
      "nothing is left lying about",
    );
    warehouse.close();
  });
});
