import assert from "node:assert/strict";
import { sql } from "kysely";
import type { App } from "../../src/app.ts";
import { changeConfig, type Transact } from "../../src/domain/kernel/work.ts";
import { partitionOf } from "../../src/domain/kernel/ids.ts";
import { LONG, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import { loadPlans, projectPlans } from "../../src/domain/progression/plan.ts";
import { createProcessEvents } from "../../src/jobs/process-events.ts";
import { eventually } from "../support/eventually.ts";
import { openDomain, publish, xpOf } from "../support/domain/domain.ts";
import { workerApp } from "../support/domain/sharing.ts";
import { postgresDomain } from "../support/processes/services.ts";

/** How long a transaction of the worker waits for a lock, in ms. */
const LOCK_MS = 300;

describe("a rule that a worker has to pause while others change its project's definitions", () => {
  const { database, domain } = postgresDomain(6);

  /** A worker's process, of which `transact` makes the transactions. */
  const appWith = (transact: Transact): App => workerApp(domain, transact);
  const processEvents = createProcessEvents();
  const runJob = (app: App, projectId: string, user: string): Promise<readonly string[]> => {
    const keys = [String(partitionOf(projectId, user))];
    const claim = () =>
      processEvents.runTogether(app, keys, { leave: () => undefined, done: () => undefined }, false);
    return withTimeouts({ ...LONG, lockMs: LOCK_MS }, claim);
  };
  const statusOf = async (ruleId: string): Promise<string> =>
    (await domain.sql<{ status: string }>`select status from rules where id = ${ruleId}`)[0]!.status;
  const isChangeWaiting = async (): Promise<boolean> => {
    const rows = await domain.sql`select 1 from pg_locks where locktype = 'advisory' and not granted
      and database = (select oid from pg_database where datname = current_database())`;
    return rows.length > 0;
  };

  it("keeps events of nobody waiting, and is paused once they are done", async () => {
    const mine = await domain.addProject();
    const other = await domain.addProject();
    const unfit = await publish(domain, mine, { key: "unfit" });
    await publish(domain, other, { key: "sound" });
    await domain.transact(async (work) => {
      await sql`update rule_versions set definition = '{"priority": 5}' where rule_id = ${unfit}`.execute(
        work.db,
      );
      await changeConfig(work, mine);
    });
    await domain.transact((work) => loadPlans(work, [mine, other], projectPlans));
    await domain.track(mine, [{ user: "u" }]);
    await domain.track(other, [{ user: "u" }]);
    const [evaluated, waiting, released] = Array.from({ length: 3 }, () => Promise.withResolvers<void>()) as [
      PromiseWithResolvers<void>,
      PromiseWithResolvers<void>,
      PromiseWithResolvers<void>,
    ];
    let refused = 0;
    let transactions = 0;
    /** The change is next to have the definitions when the claim lets go of them. */
    const transact: Transact = async (run) => {
      // The first one takes the events.
      if (++transactions === 1) return domain.transact(run);
      try {
        return await domain.transact(async (work) => {
          const value = await run(work);
          evaluated.resolve();
          await waiting.promise;
          return value;
        });
      } catch (error) {
        refused++;
        throw error;
      }
    };
    const change = evaluated.promise.then(() =>
      withTimeouts(LONG, () =>
        openDomain(database).transact(async (work) => {
          await changeConfig(work, mine);
          await released.promise;
        }),
      ),
    );
    const app = appWith(transact);
    try {
      const claim = runJob(app, mine, "u");
      await evaluated.promise;
      await eventually(isChangeWaiting);
      waiting.resolve();
      await claim;
      assert.equal(refused, 0, "the claim does not wait for the pause");
      await runJob(app, other, "u");
      assert.deepEqual(await xpOf(domain, other), { u: 1 });
      await eventually(() => refused > 0);
      assert.equal(await statusOf(unfit), "ACTIVE");
    } finally {
      waiting.resolve();
      released.resolve();
      await change;
    }
    await eventually(async () => (await statusOf(unfit)) === "PAUSED");
  });
});
