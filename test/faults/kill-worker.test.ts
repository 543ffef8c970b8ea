import assert from "node:assert/strict";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import type { Database } from "../../src/platform/database.ts";
import { aTenant } from "../support/app/app.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { seeded } from "../support/seed.ts";
import { assertInvariants, readXp } from "../support/domain/crashing.ts";
import { freePort, kill, laurel, startProcess } from "../support/processes/process.ts";
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
import { ownServices } from "../support/processes/services.ts";

const KILLS = 20;

/** Events stored and no longer in the queue. */
const processedEvents = async ({ em }: Database): Promise<number> => {
  const counted = await sql<{ n: string }>`
    select (select count(*) from tracked_events) - (select count(*) from event_q) as n`.execute(
    em.fork().getKysely(),
  );
  return Number(counted.rows[0]!.n);
};

/** Waits until more than `before` are processed, or none are left to process. */
const progressed = (database: Database, before: number): Promise<boolean> =>
  eventually(
    async () => {
      const now = await processedEvents(database);
      return now > before || now === worldcupTruth().events;
    },
    { timeoutMs: 60_000 },
  );

describe("kill -9 of a cluster's worker at random moments of an import", () => {
  const random = seeded();
  const own = ownServices({ isWanted: hasRealData });

  it("loses nothing and applies nothing twice", async () => {
    const env = { ...own.services.env, PORT: String(await freePort()) };
    const web = await startProcess(["serve"], { ...env, ROLES: "web" });
    let worker = await startProcess(["worker"], env);
    const api = clientOf(`http://127.0.0.1:${env.PORT}`);
    const { key } = await aTenant(api);
    await defineWorldcup(api, key);
    const state = join(own.path, "state.json");
    const options = ["--key", key, "--url", api.url, "--json", "--batch", "50", "--state", state];
    const importing = laurel(["import", WORLDCUP, ...options]);

    // One worker, mostly dead, so that the import runs ahead of it. Every second kill comes at any moment,
    // the others soon after the worker was seen at work.
    const processed = [0];
    for (let kills = 0; kills < KILLS; kills++) {
      const before = processed.at(-1)!;
      if (kills % 2 === 0) await delay(random.next() * 300);
      else await progressed(own.database, before);
      await delay(random.next() * 60);
      await kill(worker);
      processed.push(await processedEvents(own.database));
      worker = await startProcess(["worker"], env);
    }
    const progress = new Set(processed);
    assert.ok(progress.size > KILLS / 3, `too few kills met the worker at work: ${processed.join(", ")}`);
    assert.equal(await importing.ended, 0, importing.output());

    await eventuallyHolds(() => assertInvariants(own.database.em), { timeoutMs: 120_000 });
    assert.deepEqual(await readXp(own.database.em), [...(await expectedXp())].toSorted());
    const { goalsAll, goalsMen, goalsWomen } = worldcupTruth().leaderboards;
    const boards = { goals: goalsAll, "goals-men": goalsMen, "goals-women": goalsWomen };
    for (const [board, truth] of Object.entries(boards)) {
      // A board that was being built when its worker died is built anew, and answers 503 meanwhile.
      await eventuallyHolds(
        async () => assert.deepEqual(sorted(await topTwenty(api, key, board)), sorted(truth)),
        { timeoutMs: 60_000 },
      );
    }
    for (const { child } of [web, worker]) child.kill("SIGTERM");
    assert.deepEqual(await Promise.all([web.ended, worker.ended]), [0, 0]);
  });
});
