import assert from "node:assert/strict";
import { aProject, evaluate } from "../support/rules/evaluation.ts";

const times = <T>(n: number, make: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => make(i));

describe("rules that take long for their steps", () => {
  it("end after a second: a thousand rules of 50 globs that nearly match a text everywhere", () => {
    const rules = times(1_000, (rule) => ({
      key: `r${rule}`,
      conditions: {
        none: times(50, (leaf) => ({
          type: "event_property",
          path: "text",
          op: "glob",
          value: `*${"a".repeat(180)}${rule}-${leaf}`,
        })),
      },
    }));
    const done = evaluate(aProject({ rules }), { properties: { text: `${"a".repeat(1_000)}b` } });
    assert.equal(done.reasons[0], "r0 MATCHED");
    assert.equal(done.outcomes.at(-1)!.outcome.reason, "STEPS_EXHAUSTED");
    assert.equal(done.told.filter(({ type }) => type === "event.steps_exhausted").length, 1);
  });
});
