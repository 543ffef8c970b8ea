import assert from "node:assert/strict";
import { aDefinition } from "../support/rules/plan.ts";

const tiers = (...thresholds: (number | undefined)[]) =>
  thresholds.map((threshold, i) => ({ tier: i + 1, ...(threshold === undefined ? {} : { threshold }) }));

describe("badges as designers write them", () => {
  const refused = (badge: object, path: string) =>
    assert.throws(
      () => aDefinition("badge", { key: "b", name: "B", ...badge }),
      (error: { issues: { path: unknown[] }[] }) => error.issues.some((one) => one.path.join(".") === path),
      path,
    );

  it("have one tier unless they say otherwise", () => {
    const { definition } = aDefinition("badge", { key: "b", name: "B" }) as unknown as {
      definition: { tiers: unknown };
    };
    assert.deepEqual(definition.tiers, [{ tier: 1, rewards: {} }]);
  });

  it("are refused with tiers out of order, thresholds that do not rise, and times that never come", () => {
    refused({ tiers: [] }, "tiers");
    refused({ tiers: [{ tier: 2 }] }, "tiers.0.tier");
    refused({ tiers: tiers(5, 5) }, "tiers.1.threshold");
    refused({ tiers: tiers(5, undefined, 4) }, "tiers.2.threshold");
    refused({ tiers: Array.from({ length: 21 }, (_, i) => ({ tier: i + 1 })) }, "tiers");
    refused(
      { tiers: tiers(undefined), progressMetric: { eventTypes: ["a"], aggregate: "count" } },
      "tiers.0.threshold",
    );
    refused(
      { availableFrom: "2026-01-02T00:00:00Z", availableUntil: "2026-01-02T00:00:00Z" },
      "availableUntil",
    );
  });
});
