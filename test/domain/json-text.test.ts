import assert from "node:assert/strict";
import fc from "fast-check";
import { tableTexts } from "../../src/domain/kernel/json-text.ts";
import { cases } from "../support/properties.ts";

describe("texts of a table", () => {
  it("have all rows in their order, and no more of them than the length allows", () => {
    const row = fc.record({ id: fc.nat(), text: fc.string({ maxLength: 40 }), none: fc.constant(undefined) });
    const many = fc.array(row, { minLength: 201, maxLength: 1_000, size: "max" });
    fc.assert(
      fc.property(many, fc.integer({ min: 1, max: 5_000 }), (rows, maxLength) => {
        const parts = tableTexts(rows, maxLength).map((text) => JSON.parse(text) as unknown[]);
        assert.deepEqual(parts.flat(), JSON.parse(JSON.stringify(rows)));
        for (const part of parts) {
          const length = part.reduce((sum: number, one) => sum + JSON.stringify(one).length, 0);
          assert.ok(part.length === 1 || length <= maxLength, `${length} of ${maxLength}`);
        }
      }),
      { numRuns: cases(50) },
    );
  });

  it("are one where there are no rows", () => {
    assert.deepEqual(tableTexts([], 1), ["[]"]);
  });
});
