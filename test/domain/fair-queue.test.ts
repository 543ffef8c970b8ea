import assert from "node:assert/strict";
import { FairQueue } from "../../src/domain/kernel/pace.ts";

describe("a line of long tasks", () => {
  it("does one at a time, and a newcomer's after one of each who waits", async () => {
    const line = new FairQueue();
    const done: string[] = [];
    let underWay = 0;
    const run = (owner: string, name: string, then?: () => void): Promise<void> =>
      line.run(owner, async (steps) => {
        assert.equal(++underWay, 1);
        steps.charge(100);
        await Promise.resolve();
        then?.();
        underWay--;
        done.push(name);
      });
    const late: Promise<void>[] = [];
    await Promise.all([
      run("many", "a"),
      run("many", "b", () => late.push(run("few", "x"), run("few", "y"))),
      run("many", "c"),
      run("many", "d"),
    ]);
    await Promise.all(late);
    assert.deepEqual(done, ["a", "b", "x", "c", "y", "d"]);
  });

  it("gives the turn to who has had the fewest steps", async () => {
    const line = new FairQueue();
    const done: string[] = [];
    const run = (owner: string, cost: number): Promise<void> =>
      line.run(owner, async (steps) => {
        steps.charge(cost);
        done.push(owner);
      });
    const costs = { dear: 300, cheap: 100 };
    await Promise.all(
      Array.from({ length: 4 }, () => Object.entries(costs).map(([owner, cost]) => run(owner, cost))).flat(),
    );
    assert.deepEqual(done.join(" "), "dear cheap cheap cheap dear cheap dear dear");
  });

  it("goes on after a task that fails, and tells who wanted it", async () => {
    const line = new FairQueue();
    const failing = line.run("a", async () => assert.fail("broken"));
    const next = line.run("a", async () => undefined);
    await assert.rejects(failing, /broken/);
    await next;
    await line.run("b", async () => undefined);
  });
});
