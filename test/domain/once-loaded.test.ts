import assert from "node:assert/strict";
import { onceLoaded } from "../../src/domain/kernel/once-loaded.ts";

describe("what is loaded once", () => {
  it("is loaded again after a failure, which all who wait get, and never after a success", async () => {
    let loads = 0;
    const load = onceLoaded(async () => {
      if (++loads === 1) throw new Error("too many open files");
      return { loads };
    });
    const first = await Promise.allSettled([load(), load()]);
    assert.deepEqual(
      first.map(({ status }) => status),
      ["rejected", "rejected"],
    );
    assert.equal(loads, 1);
    const found = await load();
    assert.deepEqual(found, { loads: 2 });
    assert.equal(await load(), found);
  });
});
