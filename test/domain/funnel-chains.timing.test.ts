import assert from "node:assert/strict";
import { judgeFunnel } from "../../src/domain/analytics/funnel-chains.ts";
import { atOnce } from "../../src/domain/kernel/slices.ts";

describe("steps of a funnel", () => {
  it("take time in proportion to the events, however many begin it", () => {
    const spent = (size: number): number => {
      const at = Float64Array.from({ length: size }, (_, i) => i >> 1);
      const marks = Uint16Array.from({ length: size }, (_, i) => 1 + 2 * (i % 2));
      const startMs = performance.now();
      atOnce(
        judgeFunnel(
          { size, at, marks, values: [] },
          { order: "ordered", steps: 10, windowMs: size, startMs: 0, endMs: size, exclude: [] },
        ),
      );
      return performance.now() - startMs;
    };
    spent(10_000);
    const [short, long] = [spent(10_000), spent(160_000)];
    assert.ok(long < 16 * 6 * Math.max(short, 5), `${short} ms, ${long} ms`);
  });
});
