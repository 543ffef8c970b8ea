import assert from "node:assert/strict";
import { grouped } from "../../src/domain/kernel/flights.ts";

const settled = async (all: readonly Promise<unknown>[]): Promise<unknown[]> =>
  (await Promise.allSettled(all)).map((one) => (one.status === "fulfilled" ? one.value : "thrown"));

describe("what is asked for in groups", () => {
  it("is answered in its place, in as few runs as there are moments", async () => {
    const runs: number[][] = [];
    const double = grouped<number, number>({
      run: async (items) => {
        runs.push([...items]);
        return items.map((n) => 2 * n);
      },
    });
    assert.deepEqual(await Promise.all([1, 2, 3].map(double)), [2, 4, 6]);
    assert.deepEqual(await double(4), 8);
    assert.deepEqual(runs, [[1, 2, 3], [4]]);
  });

  it("is never answered by a run that began before it was asked", async () => {
    let value = "old";
    const begun: PromiseWithResolvers<void>[] = [];
    const read = grouped<string, string>({
      run: async (items) => {
        const seen = value;
        const gate = Promise.withResolvers<void>();
        begun.push(gate);
        await gate.promise;
        return items.map(() => seen);
      },
    });
    const first = read("a");
    while (begun.length < 1) await new Promise(setImmediate);
    value = "new";
    const second = read("b");
    begun[0]!.resolve();
    assert.equal(await first, "old");
    while (begun.length < 2) await new Promise(setImmediate);
    begun[1]!.resolve();
    assert.equal(await second, "new");
  });

  it("shares runs with its own key only, and no run is larger than it may be", async () => {
    const runs: string[][] = [];
    const ask = grouped<string, string>({
      keyOf: (item) => item[0]!,
      runMax: 2,
      run: async (items) => {
        runs.push([...items]);
        return items;
      },
    });
    await Promise.all(["a1", "b1", "a2", "a3"].map(ask));
    assert.deepEqual(runs.toSorted(), [["a1", "a2"], ["a3"], ["b1"]]);
  });

  it("is thrown what its run throws, and the next run is as good as any", async () => {
    const ask = grouped<number, number>({
      run: async (items) => {
        if (items.includes(0)) throw new Error("no");
        return items;
      },
    });
    assert.deepEqual(await settled([ask(0), ask(1)]), ["thrown", "thrown"]);
    assert.equal(await ask(1), 1);
  });
});
