import assert from "node:assert/strict";
import { createMetrics } from "../../src/metrics.ts";

describe("the names of metrics", () => {
  it("end in _total for counters, and for nothing else", async () => {
    const metrics = await createMetrics().registry.getMetricsAsJSON();
    assert.ok(metrics.length > 50, `${metrics.length} metrics`);
    const wrong = metrics.filter(
      ({ name, type }) => name.endsWith("_total") !== (String(type) === "counter"),
    );
    assert.deepEqual(
      wrong.map(({ name }) => name),
      [],
    );
  });
});
