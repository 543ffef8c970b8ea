import assert from "node:assert/strict";
import { JobSteps } from "../../src/domain/long-work/step-job.ts";
import { JOB_KINDS } from "../../src/domain/registries/jobs/kinds.ts";
import { startBulkRevert } from "../../src/domain/revert/bulk/bulk-revert.ts";
import { type Domain, findingsOf, processAll } from "../support/domain/domain.ts";
import { startDatabase } from "../support/processes/services.ts";
import { aHistoryProject, standingOf } from "../support/reverts/histories.ts";

const PLAYERS = 30;
const EACH = 8;
const WORKERS = 3;

describe("two bulk reverts of the same events at once, in PostgreSQL", () => {
  let domain: Domain;
  let remove: () => Promise<void>;
  before(async () => {
    ({ domain, remove } = await startDatabase(WORKERS + 1));
  });
  after(() => remove());

  it("take everything back exactly once", async () => {
    const projectId = await aHistoryProject(domain);
    const name = (i: number): string => `player-${i % PLAYERS}`;
    const properties = { score: 3, game: "a" };
    const eventOf = (_: unknown, i: number) => ({ user: name(i), type: "won", properties });
    const kept = await domain.track(projectId, Array.from({ length: PLAYERS }, eventOf));
    await processAll(domain);
    const before = await Promise.all(kept.map((_, i) => standingOf(domain, projectId, name(i))));
    const eventIds = await domain.track(projectId, Array.from({ length: PLAYERS * EACH }, eventOf));
    await processAll(domain);

    const { transact } = domain;
    const how = { reason: "test", onShortfall: "CLAMP", dryRun: false, actor: "test" } as const;
    for (let i = 0; i < 2; i++)
      await transact((work) => startBulkRevert(work, projectId, { filter: { eventIds }, ...how }));
    const jobs = (): Promise<{ status: string; reverted: number | null }[]> =>
      domain.sql<{ status: string; reverted: number | null }>`
        select status, (result->>'reverted')::int as reverted from project_jobs
        where project_id = ${projectId}`;
    const onError = (error: unknown): never => assert.fail(String(error));
    const work = async (): Promise<void> => {
      const steps = new JobSteps({ transact, kinds: JOB_KINDS, onError });
      while ((await jobs()).some(({ status }) => status === "QUEUED" || status === "RUNNING"))
        await steps.step();
    };
    await Promise.all(Array.from({ length: WORKERS }, work));

    const ended = await jobs();
    assert.ok(ended.every(({ status }) => status === "SUCCEEDED"));
    assert.equal(
      ended.reduce((sum, { reverted }) => sum + reverted!, 0),
      eventIds.length,
    );
    const told = await domain.sql<{ id: string }>`
      select data->>'eventId' as id from outbox
      where project_id = ${projectId} and type = 'event.reverted'`;
    assert.deepEqual(told.map(({ id }) => id).toSorted(), eventIds.toSorted());
    for (const [i, standing] of before.entries())
      assert.deepEqual(await standingOf(domain, projectId, name(i)), standing, name(i));
    assert.deepEqual(await findingsOf(domain, projectId), []);
  });
});
