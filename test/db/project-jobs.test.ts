import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { sql } from "kysely";
import { LONG, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import { cancelJob, getJob, queueJob } from "../../src/domain/long-work/project-jobs.ts";
import { bulkGrant } from "../../src/domain/economy/rewards/references.ts";
import { startDatabase } from "../support/processes/services.ts";
import { eventually } from "../support/eventually.ts";
import type { Domain } from "../support/domain/domain.ts";

const outside = AsyncLocalStorage.snapshot();

describe("a job of a project in PostgreSQL", () => {
  let domain: Domain;
  let remove: () => Promise<void>;
  before(async () => {
    ({ domain, remove } = await startDatabase(4));
  });
  after(() => remove());

  const isWaitedFor = (): Promise<boolean> =>
    domain.transact(async ({ db }) => {
      const waiting = sql`select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`;
      return (await waiting.execute(db)).rows.length > 0;
    });

  it("that ends while it is cancelled stays what it is, and the refusal tells what that is", async () => {
    const projectId = await domain.addProject();
    const wish = { kind: bulkGrant, params: { playerIds: [] }, createdBy: "test" };
    const { id } = await domain.transact((work) => queueJob(work, projectId, wish));
    const ref = { projectId, id, kinds: [bulkGrant.kind] };
    let cancelled: Promise<unknown> | undefined;
    // A busy machine may look later than a wait for a lock usually ends.
    await withTimeouts(LONG, () =>
      domain.transact(async ({ db }) => {
        await sql`
        update project_jobs set status = 'SUCCEEDED', result = '{}', finished_at = now()
        where id = ${id}`.execute(db);
        cancelled = outside(() => withTimeouts(LONG, () => domain.transact((work) => cancelJob(work, ref))));
        cancelled.catch(() => undefined);
        await outside(() => eventually(isWaitedFor));
      }),
    );
    const refusal = { code: "CONFLICT", reason: "INVALID_STATE", message: "the job is SUCCEEDED" };
    await assert.rejects(cancelled!, refusal);
    assert.equal((await domain.transact((work) => getJob(work, ref))).status, "SUCCEEDED");
  });
});
