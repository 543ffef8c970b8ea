import assert from "node:assert/strict";
import { type RawBuilder, sql } from "kysely";
import type { App } from "../../src/app.ts";
import { EVERY_KEY, type Job } from "../../src/jobs/job.ts";
import { readBy } from "../../src/domain/kernel/read.ts";
import { createJobs } from "../../src/jobs/jobs.ts";
import { createSweep } from "../../src/jobs/sweeps.ts";
import { openDomain, openMemoryDatabase, userIn } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";

describe("the sweep of a worker", () => {
  const database = madeOnce(openMemoryDatabase, (made) => made.close());

  const appOf = () => {
    const { transact, clock } = openDomain(database);
    const woken: string[] = [];
    let transactions = 0;
    const note = (job: string, key: string): void => void woken.push(`${job} ${key}`);
    const counted: App["transact"] = (run) => {
      transactions++;
      return transact(run);
    };
    const read = readBy(counted);
    const app = { transact: counted, read, clock, queue: { wake: note, wakeHere: note } } as unknown as App;
    return { app, woken, transactions: () => transactions };
  };
  const dueWhen = (isDue: (at: Date) => RawBuilder<unknown>): Job => ({
    concurrency: 1,
    isDue,
    run: async () => undefined,
  });

  it("runs the jobs that have something to do, at the time that it is, and no others", async () => {
    const jobs = {
      "send-mail": dueWhen(() => sql`true`),
      "end-boosts": dueWhen(() => sql`false`),
      "advance-lobbies": dueWhen((at) => sql`${at.toISOString()}::timestamptz > '2000-01-01'`),
      "tell-ranks": dueWhen((at) => sql`${at.toISOString()}::timestamptz < '2000-01-01'`),
    };
    const { app, woken } = appOf();
    await createSweep(jobs).run(app, EVERY_KEY);
    assert.deepEqual(woken, ["send-mail *", "advance-lobbies *"]);
  });

  it("looks for the work of all jobs in one transaction, and finds none where there is none", async () => {
    const { app, woken, transactions } = appOf();
    const jobs = createJobs();
    assert.ok(Object.values(jobs).filter(({ isDue }) => isDue).length > 5);
    const { sweep } = jobs;
    assert.ok("run" in sweep);
    await sweep.run(app, EVERY_KEY);
    assert.deepEqual([woken, transactions()], [[], 1]);
  });

  it("wakes the partitions in which events and changes wait, also events whose retry is due", async () => {
    const domain = openDomain(database);
    const projectId = await domain.addProject();
    const user = userIn(projectId, 7);
    await domain.track(projectId, [{ user }]);
    const { app, woken } = appOf();
    const sweep = createSweep({});
    await sweep.run(app, EVERY_KEY);
    assert.deepEqual(woken.splice(0), ["process-events 7"]);
    await domain.sql`with q as (delete from event_q returning project_id, event_id, part, attempts)
      insert into event_due (project_id, event_id, part, attempts, due_at)
      select project_id, event_id, part, attempts, now() + interval '1 hour' from q`;
    await sweep.run(app, EVERY_KEY);
    assert.deepEqual(woken.splice(0), []);
    await domain.sql`update event_due set due_at = '2000-01-01'`;
    await sweep.run(app, EVERY_KEY);
    assert.deepEqual(woken, ["process-events 7"]);
  });
});
