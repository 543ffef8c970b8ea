import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import fc from "fast-check";
import type { App } from "../../src/app.ts";
import { type AnyJob, type HeldKeys, startRunners } from "../../src/jobs/job.ts";
import { eventuallyHolds } from "../support/eventually.ts";
import { cases } from "../support/properties.ts";

type RunTogether = (keys: readonly string[], held: HeldKeys) => Promise<readonly string[]>;

/** Runners touch nothing of the app but its log, and that only when a run fails. */
const app = {} as App;
const start = (concurrency: number, runTogether: RunTogether) => {
  const job: AnyJob = {
    concurrency,
    runTogether: (_, keys, held) => runTogether(keys, held),
  };
  const runners = startRunners(app, { maintain: job });
  return { push: (key: string) => runners.push("maintain", key), close: runners.close };
};
const LEFT = Array.from({ length: 6 }, () => "leave");
/** A promise and what ends it. */
const gate = () => Promise.withResolvers<void>();

describe("a job that takes its keys together", () => {
  it("is given all keys that were pushed in one turn", async () => {
    const runs: string[][] = [];
    const { push, close } = start(4, async (keys) => {
      runs.push([...keys]);
      return [];
    });
    for (const key of ["a", "b", "c", "b"]) push(key);
    await eventuallyHolds(() => assert.deepEqual(runs, [["a", "b", "c"]]));
    await close();
  });

  it("runs keys that were left in another run while the first goes on", async () => {
    const runs: string[][] = [];
    const { promise, resolve } = gate();
    const { push, close } = start(2, async (keys, { leave }) => {
      runs.push([...keys]);
      if (runs.length > 1) return [];
      leave(["b", "c"]);
      await promise;
      return [];
    });
    for (const key of ["a", "b", "c"]) push(key);
    await eventuallyHolds(() =>
      assert.deepEqual(runs, [
        ["a", "b", "c"],
        ["b", "c"],
      ]),
    );
    resolve();
    await close();
  });

  it("runs a key with which it was done before when that is woken, and only then", async () => {
    const runs: string[][] = [];
    const { promise, resolve } = gate();
    const { push, close } = start(2, async (keys, { done }) => {
      runs.push([...keys]);
      if (runs.length > 1) return [];
      done(["b"]);
      await promise;
      return [];
    });
    for (const key of ["a", "b"]) push(key);
    await eventuallyHolds(() => assert.equal(runs.length, 1));
    push("a");
    push("b");
    await eventuallyHolds(() => assert.deepEqual(runs[1], ["b"]));
    resolve();
    await eventuallyHolds(() => assert.deepEqual(runs[2], ["a"]));
    await close();
    assert.equal(runs.length, 3);
  });

  it("loses no wake, and never has a key in two runs, whatever runs leave, let go and ask for", async () => {
    const step = fc.record({ wakes: fc.array(fc.nat(7), { maxLength: 6 }), isEnding: fc.boolean() });
    const fates = fc.array(fc.constantFrom("end", "leave", "done", "again"), { minLength: 1, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 25 }), fates, fc.integer({ min: 1, max: 3 }), histories),
      // A key that five runs in a row leave: the sixth begins when a loop of a fixed number of turns is over.
      { numRuns: cases(200), examples: [[[{ wakes: [0], isEnding: false }], ["end", ...LEFT], 1]] },
    );
  });
});

type Step = { wakes: readonly number[]; isEnding: boolean };

/** Rows by key are the work. A run waits, takes the rows that are there, and then may hear of no more. */
const histories = async (
  steps: readonly Step[],
  chosen: readonly string[],
  concurrency: number,
): Promise<void> => {
  const fates = [...chosen];
  const rows = new Set<string>();
  const inHand = new Set<string>();
  const gates: (() => void)[] = [];
  let quiet = 0;
  const { push, close } = start(concurrency, async (keys, held) => {
    quiet = 0;
    const own = new Set(keys);
    for (const key of own) {
      assert.ok(!inHand.has(key), `${key} is in two runs`);
      inHand.add(key);
    }
    const letGo = (key: string): void => {
      own.delete(key);
      inHand.delete(key);
    };
    const again: string[] = [];
    for (const key of keys) {
      // When the fates are used up every key is simply done.
      const fate = fates.pop() ?? "end";
      if (fate === "leave") {
        letGo(key);
        held.leave([key]);
        continue;
      }
      await new Promise<void>((resolve) => void gates.push(resolve));
      if (fate === "again") again.push(key);
      else rows.delete(key);
      if (fate === "done") {
        letGo(key);
        held.done([key]);
      }
    }
    for (const key of own) letGo(key);
    return again;
  });
  for (const { wakes, isEnding } of steps) {
    for (const wake of wakes) {
      rows.add(String(wake));
      push(String(wake));
    }
    if (isEnding) gates.shift()?.();
    await turn();
  }
  // A run begins within a turn of what brings it about; after some turns without any there are no more.
  for (quiet = 0; quiet < 5; quiet++) {
    if (gates.length > 0) quiet = 0;
    for (const open of gates.splice(0)) open();
    await turn();
  }
  await close();
  assert.deepEqual([...rows], []);
};

describe("jobs of a process that stops", () => {
  it("do at the stop what they have to although another one hangs, which is told to end", async () => {
    const { promise: hanging, resolve: goOn } = gate();
    const done: string[] = [];
    const runners = startRunners(
      app,
      {
        maintain: {
          concurrency: 1,
          run: () => hanging,
          stop: () => void done.push("hanging one told"),
          atStop: async () => void done.push("hanging one"),
        },
        "flush-rule-stats": {
          concurrency: 1,
          run: async () => void done.push("run"),
          atStop: async () => void done.push("written"),
        },
      },
      50,
    );
    runners.push("maintain", "*");
    runners.push("flush-rule-stats", "*");
    await eventuallyHolds(() => assert.deepEqual(done, ["run"]));
    const closed = runners.close();
    await eventuallyHolds(() => assert.deepEqual(done, ["run", "hanging one told", "written"]));
    goOn();
    await closed;
    assert.deepEqual(done, ["run", "hanging one told", "written", "hanging one"]);
  });
});
