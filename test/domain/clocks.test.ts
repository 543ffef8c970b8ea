import assert from "node:assert/strict";
import fc from "fast-check";
import { sql } from "kysely";
import type { App } from "../../src/app.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { JobSteps } from "../../src/domain/long-work/step-job.ts";
import { queueJob } from "../../src/domain/long-work/project-jobs.ts";
import { createPlanCache } from "../../src/domain/progression/plan.ts";
import { FIRST_PROJECT } from "../../src/domain/progression/queue.ts";
import { clockAdvance } from "../../src/domain/registries/clock/test-clock.ts";
import { followClocks } from "../../src/jobs/jobs.ts";
import {
  ALL_PARTS,
  claimParts,
  memoryDomain,
  processParts,
  publish,
  userIn,
} from "../support/domain/domain.ts";
import { cases } from "../support/properties.ts";

const DAY_MS = 86_400_000;

describe("a claim with events of projects whose clocks differ", () => {
  const { domain } = memoryDomain();
  const onError = (error: unknown): never => assert.fail(String(error));

  const aProject = async (): Promise<string> => {
    const id = await domain.addProject();
    await publish(domain, id, { key: "gift", actions: [{ type: "grant_xp", amount: 1 }] });
    return id;
  };
  /** A sandbox beside another project, `days` ahead. */
  const aSandbox = async (days: number): Promise<string> => {
    const [id, of] = [await aProject(), await domain.addProject()];
    const ahead = sql`update projects set sandbox_of = ${of}::uuid, clock_ahead_ms = ${days * DAY_MS}
      where id = ${id}::uuid`;
    await domain.transact(({ db }) => ahead.execute(db));
    return id;
  };
  const options = (claimLimit = 100) => ({
    transact: domain.transact,
    plans: createPlanCache(),
    claimLimit,
    onError,
  });
  type Row = { project: string; xp: number; early: Date; late: Date };
  /** XP of a project's players, and between what times it was given, in days from now. */
  const ledger = async (ids: readonly string[]): Promise<Map<string, [xp: number, days: number[]]>> => {
    const rows =
      await domain.sql<Row>`select project_id as project, sum(amount)::int as xp, min(created_at) as early,
      max(created_at) as late
      from ledger_entries where project_id = any(${`{${ids.join(",")}}`}::uuid[]) group by project_id`;
    const days = (time: Date): number => Math.round((time.getTime() - Date.now()) / DAY_MS) || 0;
    return new Map(rows.map(({ project, xp, early, late }) => [project, [xp, [days(early), days(late)]]]));
  };

  it("evaluates each at the time of its project, in one claim", async () => {
    const [live, near, far] = [await aProject(), await aSandbox(3), await aSandbox(300)];
    for (const id of [live, near, far])
      await domain.track(
        id,
        [0, 1, 2].map((part) => ({ user: userIn(id, part) })),
      );
    const places = ALL_PARTS.map((part) => ({ part, afterProject: FIRST_PROJECT }));
    const done = await claimParts({ ...options(), claimTogether: 100, onLeft: () => undefined }, places);
    assert.equal(done.events, 9);
    const given = await ledger([live, near, far]);
    assert.deepEqual(given.get(live), [3, [0, 0]]);
    assert.deepEqual(given.get(near), [3, [3, 3]]);
    assert.deepEqual(given.get(far), [3, [300, 300]]);
  });

  it("evaluates each event once, however they are mixed and however few a claim takes", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat({ max: 2 }), fc.nat({ max: 5 })), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 6 }),
        async (sent, claimLimit) => {
          const ids = [await aProject(), await aSandbox(7), await aSandbox(70)];
          for (const [of, part] of sent) await domain.track(ids[of]!, [{ user: userIn(ids[of]!, part) }]);
          await processParts(options(claimLimit), ALL_PARTS);
          const [left] = await domain.sql<{ n: string }>`select count(*) as n from event_q`;
          assert.equal(Number(left!.n), 0);
          const given = await ledger(ids);
          for (const [i, days] of [0, 7, 70].entries()) {
            const count = sent.filter(([of]) => of === i).length;
            assert.deepEqual(given.get(ids[i]!), count === 0 ? undefined : [count, [days, days]]);
          }
        },
      ),
      { numRuns: cases(15) },
    ));

  it("is not advanced for ever where events are not processed: the advance fails", async () => {
    const id = await aSandbox(1);
    await domain.track(id, [{ user: "waiting" }]);
    const params = { fromAheadMs: DAY_MS, toAheadMs: 2 * DAY_MS };
    await domain.transact(async (work) => {
      await queueJob(work, id, { kind: clockAdvance, params, createdBy: "test" });
      await sql`update project_jobs set state = '{"looks":3000}' where project_id = ${id}`.execute(work.db);
    });
    const jobs = new JobSteps({ transact: domain.transact, onError: () => undefined, kinds: [clockAdvance] });
    assert.ok(await jobs.step());
    const [job] = await domain.sql<{
      status: string;
      error: string;
    }>`select status, error from project_jobs where project_id = ${id}`;
    assert.deepEqual(job, { status: "FAILED", error: "the project's events are not being processed" });
    await domain.process();
  });

  it("goes on in turn with those of others, however much is due in one", async () => {
    await domain.sql`update projects set clock_ahead_ms = 0 where clock_ahead_ms > 0 returning 1`;
    const [busy, other] = [await aSandbox(1), await aSandbox(1)].toSorted();
    const delayEvent = (id: string) =>
      domain.sql`insert into event_due (project_id, event_id, part, attempts, due_at)
        values (${id}, ${newId()}, 0, 0, now()) returning 1`;
    const isWaiting = async (id: string): Promise<boolean> =>
      (await domain.sql`select 1 from event_due where project_id = ${id}`).length > 0;
    await delayEvent(busy!);
    await delayEvent(other!);
    let steps = 0;
    let stepsOfOther: number | undefined;
    const pause = async (): Promise<void> => {
      if (++steps < 20) await delayEvent(busy!);
      if (stepsOfOther === undefined && !(await isWaiting(other!))) stepsOfOther = steps;
    };
    await followClocks.run({ transact: domain.transact, limits: { pause } } as unknown as App, "*");
    assert.equal(stepsOfOther, 2);
    assert.equal(await isWaiting(busy!), false);
    await domain.sql`delete from event_q returning 1`;
  });

  it("leaves no project but a sandbox a clock of its own", async () => {
    const id = await aProject();
    const ahead = sql`update projects set clock_ahead_ms = 1000 where id = ${id}::uuid`;
    await assert.rejects(
      domain.transact(({ db }) => ahead.execute(db)),
      /projects_clock_check/,
    );
  });
});
