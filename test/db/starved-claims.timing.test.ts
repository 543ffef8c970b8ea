import assert from "node:assert/strict";
import { sql } from "kysely";
import { z } from "zod";
import type { App } from "../../src/app.ts";
import { createLog } from "../../src/log.ts";
import { sweepDue } from "../../src/jobs/due-work.ts";
import type { PlayersOf } from "../../src/domain/progression/moved-ends.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { BATCH, STEP, withTimeouts } from "../../src/domain/kernel/timeouts.ts";
import { outageOf } from "../../src/domain/kernel/outages.ts";
import { processPartitions } from "../../src/domain/progression/claim.ts";
import { ClaimShares } from "../../src/domain/progression/claim-shares.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT, type PartitionCursor } from "../../src/domain/progression/queue.ts";
import { requeueDueEvents } from "../../src/domain/progression/waiting-work.ts";
import { getJob, jobKind, queueJob } from "../../src/domain/long-work/project-jobs.ts";
import { JobSteps } from "../../src/domain/long-work/step-job.ts";
import { ADMINS } from "../../src/domain/kernel/caller.ts";
import { createStatsRecorder, type StatsRecorder } from "../../src/domain/evaluation/running/stats.ts";
import { getEvent } from "../../src/domain/tracking/events.ts";
import type { Domain } from "../support/domain/domain.ts";
import { publish, xpOf } from "../support/domain/rule-projects.ts";
import { userIn } from "../support/domain/process-parts.ts";
import { startDatabase } from "../support/processes/services.ts";

/** How long the transactions of these tests may stand still, in ms. */
const IDLE_MS = 300;
/** CPU of a slow event or step, in ms: more than that. */
const SLOW_MS = 600;
const PART = 3;
/** Claims in which everything has come to its end. */
const CLAIMS_MAX = 20;

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
};
const compute = (ms: number): void => {
  for (const untilMs = cpuMs() + ms; cpuMs() < untilMs;);
};
const block = (ms: number): void => {
  for (const untilMs = performance.now() + ms; performance.now() < untilMs;);
};

describe("work that computes for longer than its transaction may stand still", () => {
  let domain: Domain;
  let remove: () => Promise<void>;
  let aheadMs = 0;
  before(async () => {
    ({ domain, remove } = await startDatabase(4, () => new Date(Date.now() + aheadMs)));
  });
  after(() => remove());

  /** Statistics of rules to which each event of one project takes so long. */
  const slowStats = (projectId: string): StatsRecorder => {
    const recorder = createStatsRecorder();
    const openBatch: StatsRecorder["openBatch"] = () => {
      const batch = recorder.openBatch();
      const observerOf: typeof batch.observerOf = (id) =>
        id === projectId ? { considered: () => compute(SLOW_MS) } : batch.observerOf(id);
      return { ...batch, observerOf };
    };
    return { ...recorder, openBatch };
  };

  it("an event fails after its tries, and those of neighbours are processed", async () => {
    const slow = await domain.addProject();
    const plain = await domain.addProject();
    await publish(domain, slow, { key: "slow" });
    await publish(domain, plain, { key: "plain" });
    const slowIds = await domain.track(slow, [{ user: userIn(slow, PART) }]);
    const user = userIn(plain, PART);
    await domain.track(plain, [{ user }, { user }, { user }]);
    const blamed: string[] = [];
    const options = {
      transact: domain.transact,
      plans: createPlanCache(),
      claimLimit: 100,
      stats: slowStats(slow),
      onError: (_error: unknown, { eventId }: { eventId: string }) => void blamed.push(eventId),
      onLeft: () => assert.fail("left"),
    };
    const begin: PartitionCursor[] = [{ part: PART, afterProject: FIRST_PROJECT }];
    let shares = new ClaimShares();
    const statuses = (): Promise<string[]> =>
      Promise.all(
        slowIds.map(async (id) => (await domain.transact((work) => getEvent(work, slow, id))).status),
      );
    await withTimeouts({ ...BATCH, idleMs: IDLE_MS }, async () => {
      // As a worker does: what an outage has undone is claimed again.
      const claim = (): Promise<unknown> =>
        processPartitions({ ...options, shares }, begin).catch((error: unknown) => {
          if (outageOf(error) === undefined) throw error;
        });
      await claim();
      await claim();
      assert.deepEqual(await xpOf(domain, plain), { [user]: 3 }, "the neighbour has had its turn");
      for (let claims = 0; claims < CLAIMS_MAX && (await statuses()).includes("PENDING"); claims++) {
        aheadMs += 60_000;
        // The project is not to be waited for here.
        shares = new ClaimShares();
        await domain.transact(requeueDueEvents);
        await claim();
      }
    });
    assert.deepEqual(await statuses(), ["FAILED"]);
    for (const id of slowIds) {
      assert.equal(blamed.filter((one) => one === id).length, 4);
      const { error } = await domain.transact((work) => getEvent(work, slow, id));
      assert.match(error!, /^evaluation took \d+ ms without a pause/);
    }
  });

  it("goes on when others take the process between its events: the transaction is kept", async () => {
    const projectId = await domain.addProject();
    await publish(domain, projectId, { key: "plain" });
    const user = userIn(projectId, PART);
    await domain.track(projectId, [{ user }, { user }, { user }, { user }]);
    const recorder = createStatsRecorder();
    // Long enough for a rest after it, in which others block the process.
    const considered = (): void => {
      compute(20);
      setImmediate(() => block(BATCH.idleMs / 2.5));
    };
    const openBatch: StatsRecorder["openBatch"] = () => ({
      ...recorder.openBatch(),
      observerOf: () => ({ considered }),
    });
    const options = {
      transact: domain.transact,
      plans: createPlanCache(),
      claimLimit: 100,
      stats: { ...recorder, openBatch },
      onError: (error: unknown) => assert.fail(String(error)),
      onLeft: () => assert.fail("left"),
    };
    const places = [{ part: PART, afterProject: FIRST_PROJECT }];
    const { events } = await withTimeouts(BATCH, () => processPartitions(options, places));
    assert.equal(events, 4);
  });

  it("players for whom something is due are left out, and those after them have their turn", async () => {
    const projectId = await domain.addProject();
    const playerIds = await Promise.all(["a", "b", "c"].map((user) => domain.addPlayer(projectId, user)));
    await domain.transact(async ({ db }) => {
      await sql`create table due_things (project_id uuid, player_id uuid, expires_at timestamptz)`.execute(
        db,
      );
      for (const [i, id] of playerIds.entries())
        await sql`insert into due_things
          values (${projectId}, ${id}, now() - interval '1 hour' + ${i} * interval '1 second')`.execute(db);
    });
    const lines: string[] = [];
    const log = createLog({ logLevel: "info" }, { write: (line) => void lines.push(line) });
    const app = { transact: domain.transact, limits: {}, log } as App;
    const settled: string[] = [];
    const settle = async ({ db, afterCommit }: Work, { playerIds: ids }: PlayersOf): Promise<void> => {
      await sql`select 1`.execute(db);
      if (ids.includes(playerIds[0]!)) compute(SLOW_MS);
      await sql`select 1`.execute(db);
      afterCommit(() => void settled.push(...ids));
    };
    await withTimeouts({ ...BATCH, idleMs: IDLE_MS }, () =>
      sweepDue(app, { due: { table: "due_things" }, settle }),
    );
    assert.deepEqual(settled, playerIds.slice(1));
    assert.equal(lines.filter((line) => line.includes(playerIds[0]!)).length, 1);
  });

  it("steps of jobs count a try, and the job has failed after the fourth", async () => {
    const slowJob = jobKind({
      kind: "SLOW",
      access: { scope: "players:write", roles: ADMINS },
      params: z.strictObject({}),
      step: async ({ db }) => {
        await sql`select 1`.execute(db);
        compute(SLOW_MS);
        await sql`select 1`.execute(db);
        return { result: {} };
      },
    });
    const projectId = await domain.addProject();
    const { id } = await domain.transact((work) =>
      queueJob(work, projectId, { kind: slowJob, params: {}, createdBy: "test" }),
    );
    const show = () => domain.transact((work) => getJob(work, { projectId, id, kinds: ["SLOW"] }));
    const jobs = new JobSteps({ ...domain, onError: () => undefined, kinds: [slowJob] });
    await withTimeouts({ ...STEP, idleMs: IDLE_MS }, async () => {
      for (let tries = 0; tries < 4; tries++) {
        aheadMs += 70_000;
        await jobs.step().catch(() => undefined);
      }
    });
    const { status, error } = await show();
    assert.equal(status, "FAILED");
    assert.match(error!, /^the step computed for \d+ ms, and its transaction was lost/);
  });
});
