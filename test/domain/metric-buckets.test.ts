import assert from "node:assert/strict";
import { createMetrics } from "../../src/metrics.ts";

describe("the buckets of histograms", () => {
  it("rise, since a value is counted in the first one that it fits into", () => {
    const shown = createMetrics().registry.getMetricsAsArray() as unknown as { upperBounds?: number[] }[];
    const all = shown.flatMap(({ upperBounds }) => (upperBounds ? [upperBounds] : []));
    assert.ok(all.length > 3);
    for (const bounds of all)
      assert.deepEqual(
        bounds,
        bounds.toSorted((a, b) => a - b),
      );
  });
});
