import assert from "node:assert/strict";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { Gate } from "../../src/rooms/admission.ts";
import { eventually } from "../support/eventually.ts";

const LIMITS = {
  activeMax: { ofOwner: 3, ofProcess: 4 },
  workMaxMs: 60_000,
  waitingMax: 5,
  waitMaxMs: 60_000,
};

/** Work that ends when it is told to. */
const aJob = () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let isRunning = false;
  return {
    run: async () => {
      isRunning = true;
      await promise;
    },
    isRunning: () => isRunning,
    end: resolve,
  };
};

const reasonOf = async (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => undefined,
    (error: unknown) => (error instanceof DomainError ? error.reason : String(error)),
  );

describe("the gate of joins", () => {
  it("works on a few at once, lets some wait in order, and sends the rest away", async () => {
    const gate = new Gate(LIMITS);
    const jobs = Array.from({ length: 10 }, aJob);
    const reasons = jobs.map(({ run }) => reasonOf(gate.pass("a", run)));
    assert.deepEqual(await Promise.all(reasons.slice(8)), ["SERVER_BUSY", "SERVER_BUSY"]);
    assert.equal(gate.waiting, 5);
    const running = () => jobs.map(({ isRunning }) => isRunning()).lastIndexOf(true) + 1;
    for (let done = 0; done < 5; done++) {
      assert.equal(running(), LIMITS.activeMax.ofOwner + done);
      jobs[done]!.end();
      await eventually(() => running() === LIMITS.activeMax.ofOwner + done + 1);
    }
    for (const { end } of jobs) end();
    assert.deepEqual(await Promise.all(reasons.slice(0, 8)), Array(8).fill(undefined));
  });

  it("gives every place back, whatever became of who had it", async () => {
    const gate = new Gate({ ...LIMITS, workMaxMs: 20, waitMaxMs: 5 });
    const outcomes = new Set<string | undefined>();
    for (let round = 0; round < 5; round++) {
      const slow = Array.from({ length: 8 }, () => reasonOf(gate.pass("a", aJob().run)));
      for (const outcome of await Promise.all(slow)) outcomes.add(outcome);
    }
    assert.deepEqual(outcomes, new Set(["SERVER_BUSY", "NOT_READY"]));
    const jobs = Array.from({ length: LIMITS.activeMax.ofOwner }, aJob);
    const passing = jobs.map(({ run }) => gate.pass("a", run));
    assert.ok(jobs.every(({ isRunning }) => isRunning()));
    for (const { end } of jobs) end();
    await Promise.all(passing);
  });

  it("keeps nobody waiting for the crowd of another tenant", async () => {
    const gate = new Gate(LIMITS);
    const crowd = Array.from({ length: 8 }, aJob);
    const passing = crowd.map(({ run }) => gate.pass("a", run));
    const [first, second] = [aJob(), aJob()];
    const others = [first, second].map(({ run }) => gate.pass("b", run));
    assert.deepEqual([first.isRunning(), second.isRunning()], [true, false]);
    assert.equal(gate.waiting, 6);
    // The second one has a slot of its tenant's, and takes the first of the process's that is free.
    crowd[0]!.end();
    await eventually(() => second.isRunning());
    for (const { end } of [...crowd, first, second]) end();
    await Promise.all([...passing, ...others]);
    assert.equal(gate.waiting, 0);
  });

  it("sends everybody away when it closes", async () => {
    const gate = new Gate(LIMITS);
    const reasons = Array.from({ length: 6 }, () => reasonOf(gate.pass("a", aJob().run)));
    gate.close();
    assert.deepEqual(await Promise.all(reasons), Array(6).fill("NOT_READY"));
    assert.equal(await reasonOf(gate.pass("a", aJob().run)), "NOT_READY");
  });
});
