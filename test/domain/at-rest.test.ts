import assert from "node:assert/strict";
import { sql } from "kysely";
import type { App } from "../../src/app.ts";
import { queueSegmentRefreshes, sweepSegments } from "../../src/domain/economy/segments/sweeps.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { readBy } from "../../src/domain/kernel/read.ts";
import { createJobs } from "../../src/jobs/jobs.ts";
import { EVERY_KEY } from "../../src/jobs/job.ts";
import { createSweep } from "../../src/jobs/sweeps.ts";
import { memoryDomain } from "../support/domain/domain.ts";

const LEVEL = { type: "player_property", field: "level", op: "gte", value: 2 };
const IDLE = { type: "player_property", field: "lastSeenAt", op: "older_than", value: "P7D" };

describe("a worker at rest", () => {
  const { domain } = memoryDomain();

  /** The jobs that the sweep wakes now. */
  const due = async (): Promise<string[]> => {
    const woken: string[] = [];
    const wake = (job: string, key: string): void => void woken.push(`${job} ${key}`);
    const { transact, clock } = domain;
    const app = { transact, read: readBy(transact), clock, queue: { wake, wakeHere: wake } };
    await createSweep(createJobs()).run(app as unknown as App, EVERY_KEY);
    return woken;
  };
  /** By SQL alone, as a restore or an operator may do it. */
  const addSegment = (projectId: string, condition: object): Promise<unknown> =>
    domain.transact(({ db }) => {
      const key = `s-${newId()}`;
      const definition = { key, name: key, kind: "DYNAMIC", definition: { all: [condition] } };
      return sql`
        insert into definitions (id, project_id, kind, key, name, definition, status, created_by, created_at,
          updated_at)
        values (${newId()}, ${projectId}, 'segment', ${key}, ${key}, ${JSON.stringify(definition)}::jsonb,
          'ACTIVE', 'test', now(), now())`.execute(db);
    });
  const jobsOf = async (projectId: string): Promise<number> => {
    const rows = await domain.sql`select 1 from project_jobs where project_id = ${projectId}
      and kind = 'SEGMENT_REFRESH'`;
    return rows.length;
  };
  const sweepOf = async (projectId: string): Promise<string | undefined> => {
    const rows = await domain.sql<{ due: string }>`select due_at::text as due from segment_sweeps
      where project_id = ${projectId}`;
    return rows[0]?.due;
  };

  it("finds a change of segments, whoever made it and although nobody was told, and then none", async () => {
    assert.deepEqual(await due(), []);
    const projectId = await domain.addProject();
    await addSegment(projectId, LEVEL);
    assert.deepEqual(await due(), ["sweep-segments *"]);
    assert.equal(await domain.transact(queueSegmentRefreshes), 1);
    assert.equal(await jobsOf(projectId), 1);
    assert.equal(await domain.transact(queueSegmentRefreshes), 0);
    assert.deepEqual(
      (await due()).filter((job) => job.startsWith("sweep")),
      [],
    );
  });

  it("keeps the note of a change that is undone or fails, and takes it with its job", async () => {
    const projectId = await domain.addProject();
    await addSegment(projectId, LEVEL);
    const died = domain.transact(async (work) => {
      await queueSegmentRefreshes(work);
      throw new Error("the worker dies");
    });
    await assert.rejects(died, /the worker dies/);
    assert.equal(await jobsOf(projectId), 0);
    await domain.transact(queueSegmentRefreshes);
    assert.equal(await jobsOf(projectId), 1);
  });

  it("looks again at players whose segments depend on time, and never at others", async () => {
    const [timed, untimed] = [await domain.addProject(), await domain.addProject()];
    await addSegment(timed, IDLE);
    await addSegment(untimed, LEVEL);
    await domain.transact(queueSegmentRefreshes);
    await domain.sql`update segment_sweeps set due_at = now()
    where project_id in (${timed}, ${untimed})`;
    while (await domain.transact(sweepSegments));
    assert.equal(await sweepOf(untimed), "infinity");
    assert.notEqual(await sweepOf(timed), "infinity");
    // A change of its segments brings the project back.
    await addSegment(untimed, IDLE);
    await domain.transact(queueSegmentRefreshes);
    assert.notEqual(await sweepOf(untimed), "infinity");
  });

  it("looks at webhooks while a delivery is pending, whenever it is due, and not where none is", async () => {
    const isWoken = async (): Promise<boolean> => (await due()).includes("deliver-webhooks *");
    const add = (status: string): Promise<unknown> =>
      domain.sql`
      insert into webhook_deliveries (webhook_id, id, tenant_id, project_id, event_id, event_type, status,
        due_at, created_at, updated_at, expires_at)
      values (${newId()}, ${newId()}, ${newId()}, ${newId()}, ${newId()}, 'player.created', ${status},
        now() + interval '1 hour', now(), now(), now() + interval '1 day')`;
    await add("success");
    assert.equal(await isWoken(), false);
    await add("pending");
    assert.equal(await isWoken(), true);
  });
});
