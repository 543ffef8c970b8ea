import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import { fillHistory } from "../support/analytics/played-history.ts";
import { findDueRollups } from "../../src/domain/analytics/rollups/due.ts";
import { rollUp } from "../../src/domain/analytics/rollups/roll-up.ts";
import { verifyRollups } from "../../src/domain/analytics/rollups/verify.ts";
import { openDomain } from "../support/domain/domain.ts";
import { eventually } from "../support/eventually.ts";
import { freePort, kill, startProcess } from "../support/processes/process.ts";
import { seeded } from "../support/seed.ts";
import { ownServices } from "../support/processes/own-services.ts";

const KILLS = 6;
const HISTORY = { players: 6_000, days: 30, events: 120_000 };

describe("kill -9 of workers that roll up events", () => {
  const own = ownServices();

  it("leaves rollups that hold each event once, whoever goes on with them", async () => {
    const random = seeded();
    const domain = openDomain(own.database);
    const projectId = await domain.addProject();
    const endMs = Date.now() - 3_600_000;
    const events = await fillHistory(own.db(), projectId, { history: HISTORY, endMs });
    // A kill before the last step leaves fewer events than those for which workers begin another one.
    const isNotDue = async (): Promise<boolean> =>
      (await domain.transact((work) => findDueRollups(work, 1))).length === 0;
    const start = async () =>
      startProcess(["worker"], { ...own.services.env, PORT: String(await freePort()) });
    for (let n = 0; n < KILLS; n++) {
      // Two of them want the same project.
      const workers = await Promise.all([start(), start()]);
      await delay(random.between(50, 900));
      await Promise.all(workers.map(kill));
    }
    const last = await start();
    await eventually(isNotDue, { timeoutMs: 120_000 });
    last.child.kill("SIGTERM");
    assert.equal(await last.ended, 0);
    while (await domain.transact((work) => rollUp(work, projectId)));
    const found = await domain.transact(async (work) => {
      await sql`set transaction isolation level repeatable read`.execute(work.db);
      return verifyRollups(work, projectId);
    });
    assert.deepEqual([found.differences, found.events], [[], events]);
  });
});
