import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { z } from "zod";
import type { App } from "../../src/app.ts";
import { ADMINS } from "../../src/domain/kernel/caller.ts";
import { conflict } from "../../src/domain/kernel/errors.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { createTransact, NO_WAKE_UPS } from "../../src/domain/kernel/transact.ts";
import type { Transact, Work } from "../../src/domain/kernel/work.ts";
import {
  cancelJob,
  getJob,
  getJobResult,
  type JobInProgress,
  jobKind,
  JOBS_MAX,
  queueJob,
} from "../../src/domain/long-work/project-jobs.ts";
import { JobSteps, LEASE_MS } from "../../src/domain/long-work/step-job.ts";
import { eventRevert } from "../../src/domain/revert/revert-events.ts";
import { createProjectJobs } from "../../src/jobs/jobs.ts";
import { createLog } from "../../src/log.ts";
import { type Crashing, makeCrashing } from "../support/domain/crashing.ts";
import { memoryDomain, openDomain, openMemoryDatabase } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

describe("a job that cannot be done", () => {
  const { domain } = memoryDomain();

  /** Runs a job of an event that does not exist. @returns its state, and what was logged */
  const run = async (kind: string, wrong: object = {}) => {
    const projectId = await domain.addProject();
    const params = { eventId: randomUUID(), reason: "test", onShortfall: "CLAMP", ...wrong };
    const { transact } = domain;
    const wanted = { kind: eventRevert, params, createdBy: "test" };
    const { id } = await transact((work) => queueJob(work, projectId, wanted));
    await transact(({ db }) => sql`update project_jobs set kind = ${kind} where id = ${id}`.execute(db));
    const lines: string[] = [];
    const log = createLog({ logLevel: "info" }, { write: (line) => void lines.push(line) });
    await createProjectJobs().run({ transact, log, limits: {} } as unknown as App, "*");
    const job = await transact((work) => getJob(work, { projectId, id, kinds: [kind] }));
    const logged = lines.map((line) => JSON.parse(line) as { level: string; err?: object });
    return { status: job.status, error: job.error, logged };
  };

  it("because it was asked for in vain is told to the customer, and is no error of the service", async () => {
    const { status, error, logged } = await run(eventRevert.kind);
    assert.deepEqual([status, error], ["FAILED", "event not found"]);
    assert.deepEqual(pluck(logged, "level", "err"), [["info", undefined]]);
  });

  it("by this version is left to the workers of another, as it is", async () => {
    const { status, error, logged } = await run("OF_ANOTHER_VERSION");
    assert.deepEqual([status, error, logged], ["QUEUED", null, []]);
  });

  it("by a fault of the service is told to operators, with what was thrown", async () => {
    const { status, logged } = await run(eventRevert.kind, { eventId: 7 });
    assert.equal(status, "QUEUED");
    assert.deepEqual(
      logged.map(({ level, err }) => [level, err !== undefined]),
      [["error", true]],
    );
  });
});
const SECOND = 1_000;

type Params = { pages: number };

describe("long work of a project", () => {
  let transact: Transact;
  let jobs: JobSteps;
  let crashing: Crashing;
  let now: number;
  let projectId: string;
  let errors: unknown[];
  /** What goes wrong in the step of a page; undefined for nothing. */
  let trouble: (page: number) => Error | undefined;

  /** Makes one player and tells of it for each page. */
  const counting = jobKind<Params>({
    kind: "COUNTING",
    access: { scope: "players:write", roles: ADMINS },
    params: z.strictObject({ pages: z.int() }),
    step: async (work: Work, { projectId: project, params: { pages }, state }: JobInProgress<Params>) => {
      const page = Number(state["page"] ?? 0) + 1;
      await sql`
        insert into players (project_id, id, external_user_id, created_at, updated_at)
        values (${project}, ${newId()}, ${`page ${page}`}, now(), now())`.execute(work.db);
      work.emit(project, "rule.budget_exhausted", {
        ruleKey: String(page),
        ruleId: project,
        asset: "XP",
        max: 1,
        window: "DAY",
      });
      const error = trouble(page);
      if (error !== undefined) throw error;
      return page === pages ? { result: { pages } } : { state: { page }, progress: (100 * page) / pages };
    },
  });

  let looks: number;
  /** Waits for what never comes. */
  const patient = jobKind({
    kind: "PATIENT",
    access: { scope: "players:write", roles: ADMINS },
    params: z.strictObject({}),
    step: async () => {
      looks += 1;
      return { state: {}, progress: 0, isWaiting: true };
    },
  });

  const database = madeOnce(openMemoryDatabase, (made) => made.close());
  before(async () => {
    transact = createTransact({
      em: database.em,
      clock: () => new Date(now),
      wakeUps: NO_WAKE_UPS,
      onError: (error) => assert.fail(String(error)),
    });
    crashing = await makeCrashing(database);
  });
  beforeEach(async () => {
    now = Date.now();
    errors = [];
    jobs = new JobSteps({
      transact,
      onError: (error) => void errors.push(error),
      kinds: [counting, patient],
    });
    looks = 0;
    trouble = () => undefined;
    await transact(({ db }) => sql`delete from project_jobs`.execute(db));
    projectId = await openDomain(database).addProject();
  });

  const queue = (pages: number, project = projectId) =>
    transact((work) => queueJob(work, project, { kind: counting, params: { pages }, createdBy: "test" }));
  const refOf = (id: string) => ({ projectId, id, kinds: [counting.kind, "GONE"] });
  const show = (id: string) => transact((work) => getJob(work, refOf(id)));
  /** Pages that were done, as players and as what was told. */
  const done = () =>
    transact(async ({ db }) => {
      const players = await sql<{ name: string }>`
        select external_user_id as name from players where project_id = ${projectId} order by id`.execute(db);
      const told = await sql<{ page: string }>`
        select data->>'ruleKey' as page from outbox where project_id = ${projectId} order by id`.execute(db);
      const pages = players.rows.map(({ name }) => Number(name.slice(5)));
      assert.deepEqual(
        told.rows.map(({ page }) => Number(page)),
        pages,
        "what was done was told",
      );
      return pages;
    });

  it("that waits for others looks ever less often, and holds up nobody", async () => {
    await transact((work) => queueJob(work, projectId, { kind: patient, params: {}, createdBy: "test" }));
    await jobs.step();
    const { id } = await queue(2, await openDomain(database).addProject());
    for (let step = 0; step < 2; step++) await jobs.step();
    const { rows } = await transact(({ db }) =>
      sql<{ status: string }>`select status from project_jobs where id = ${id}`.execute(db),
    );
    assert.equal(rows[0]!.status, "SUCCEEDED", "before the other one is looked at again");
    for (const [n, waitMs] of [20, 40, 80, 160, 200, 200].entries()) {
      now += waitMs - 1;
      await jobs.step();
      assert.equal(looks, n + 1);
      now += 1;
      await jobs.step();
      assert.equal(looks, n + 2);
    }
    assert.deepEqual(errors, []);
  });

  it("is done step by step and shows how far it is, then its result", async () => {
    const { id, status, progress } = await queue(3);
    assert.deepEqual([status, progress], ["QUEUED", 0]);
    await assert.rejects(
      transact((work) => getJobResult(work, refOf(id))),
      { reason: "INVALID_STATE" },
    );
    const seen: unknown[] = [];
    while (await jobs.step()) {
      const job = await show(id);
      seen.push([job.status, job.progress, job.finishedAt !== null]);
    }
    assert.deepEqual(seen, [
      ["RUNNING", 33, false],
      ["RUNNING", 66, false],
      ["SUCCEEDED", 100, true],
    ]);
    const result = await transact((work) => getJobResult(work, refOf(id)));
    assert.deepEqual(JSON.parse(result), { pages: 3 });
    assert.deepEqual(await done(), [1, 2, 3]);
  });

  it("has its turn after a step of each other tenant at most, whatever those have queued", async () => {
    const others: string[] = [];
    for (let n = 0; n < 3; n++) {
      const other = await openDomain(database).addProject();
      others.push(other);
      for (let i = 0; i < 20; i++) await queue(5, other);
    }
    for (let n = 0; n < 30; n++) assert.ok(await jobs.step());
    now += 1;
    const mine = await queue(2);
    // Its second step waits until the others have had as much time, in however many steps.
    for (let n = 0; n <= others.length; n++) assert.ok(await jobs.step());
    assert.ok((await show(mine.id)).progress > 0);
  });

  it("is tried again after 1, 10 and 60 seconds when a step throws, and nothing of it is left", async () => {
    const { id } = await queue(2);
    await jobs.step();
    trouble = () => new Error("no luck");
    for (const wait of [1, 10, 60]) {
      assert.ok(await jobs.step());
      assert.ok(!(await jobs.step()), "not before its time");
      const { status, error } = await show(id);
      assert.deepEqual([status, error], ["RUNNING", "no luck"]);
      now += wait * SECOND - 1;
      assert.ok(!(await jobs.step()));
      now += 1;
    }
    assert.deepEqual(await done(), [1]);
    trouble = () => undefined;
    assert.ok(await jobs.step());
    const { status, error } = await show(id);
    assert.deepEqual([status, error, errors.length], ["SUCCEEDED", null, 3]);
    assert.deepEqual(await done(), [1, 2]);
  });

  it("is as it was after any number of outages: none of them counts as a try", async () => {
    const { id } = await queue(2);
    trouble = () => Object.assign(new Error("could not extend file"), { code: "53100" });
    for (let n = 0; n < 10; n++) await assert.rejects(jobs.step(), { code: "53100" });
    assert.equal((await show(id)).status, "QUEUED");
    trouble = () => undefined;
    assert.ok(await jobs.step());
    assert.ok(await jobs.step());
    assert.equal((await show(id)).status, "SUCCEEDED");
    assert.deepEqual([errors, await done()], [[], [1, 2]]);
  });

  it("has failed after the fourth try, or at once when it was refused", async () => {
    const { id } = await queue(2);
    trouble = () => new Error("no luck");
    for (const wait of [1, 10, 60, 0]) {
      assert.ok(await jobs.step());
      now += wait * SECOND;
    }
    assert.equal((await show(id)).status, "FAILED");
    assert.ok(!(await jobs.step()));
    const refused = await queue(2);
    trouble = () => conflict("LIMIT_REACHED", "there is no room");
    assert.ok(await jobs.step());
    const { status, error, finishedAt } = await show(refused.id);
    assert.deepEqual([status, error], ["FAILED", "there is no room"]);
    assert.ok(finishedAt);
    assert.deepEqual(await done(), []);
  });

  it("fails alone when for a day nobody knows its kind, or its parameters are not as they were", async () => {
    const strange = await queue(1);
    await transact(({ db }) => sql`update project_jobs set kind = 'GONE'`.execute(db));
    assert.ok(!(await jobs.step()));
    now += 86_400 * SECOND;
    const fine = await queue(1);
    for (const _job of [strange, fine]) assert.ok(await jobs.step());
    assert.deepEqual(
      [(await show(strange.id)).status, (await show(fine.id)).status],
      ["FAILED", "SUCCEEDED"],
    );
  });

  it("stops when it is cancelled; what was done stays done", async () => {
    const { id } = await queue(3);
    await jobs.step();
    const cancelled = await transact((work) => cancelJob(work, refOf(id)));
    assert.equal(cancelled.status, "CANCELLED");
    assert.ok(cancelled.finishedAt);
    assert.ok(!(await jobs.step()));
    assert.deepEqual(await done(), [1]);
    await assert.rejects(
      transact((work) => cancelJob(work, refOf(id))),
      { reason: "INVALID_STATE" },
    );
  });

  it("does each step once, wherever its process dies", async () => {
    const { id } = await queue(3);
    for (const isAfter of [false, true]) {
      for (let at = 1; at < 30; at++) {
        const before = await done();
        const { status } = await show(id);
        if (status === "SUCCEEDED") return assert.deepEqual(before, [1, 2, 3]);
        // Also the note of the failure is lost with the process.
        const died = await crashing.crashAt(at, isAfter, () => jobs.step());
        now += LEASE_MS;
        if (!died) break;
        assert.deepEqual(await done(), before, `${at}, ${isAfter}`);
        await transact(({ db }) => sql`update project_jobs set attempts = 0`.execute(db));
      }
    }
    while (await jobs.step());
    assert.deepEqual(await done(), [1, 2, 3]);
  });

  it("is tried again a minute after its process died, and has failed after the fourth time", async () => {
    const { id } = await queue(2);
    // The claim is one statement, the lock the next.
    const dieInStep = async () => assert.ok(await crashing.crashAt(3, true, () => jobs.step()));
    await dieInStep();
    assert.ok(!(await jobs.step()), "somebody may still be at it");
    now += LEASE_MS - 1;
    assert.ok(!(await jobs.step()));
    now += 1;
    for (let died = 1; died < 4; died++) {
      await dieInStep();
      now += LEASE_MS;
    }
    assert.equal((await show(id)).status, "QUEUED");
    assert.ok(await jobs.step());
    const { status, error } = await show(id);
    assert.equal(status, "FAILED");
    assert.match(error!, /process died/);
    assert.ok(!(await jobs.step()));
    assert.deepEqual(await done(), []);
  });

  it(`is at most ${JOBS_MAX} at a time in one project`, async () => {
    for (let i = 0; i < JOBS_MAX; i++) await queue(1);
    await assert.rejects(queue(1), { reason: "JOB_LIMIT" });
    await jobs.step();
    await queue(1);
  });
});
