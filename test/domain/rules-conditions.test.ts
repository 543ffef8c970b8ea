import assert from "node:assert/strict";
import * as fc from "fast-check";
import { compileComparison } from "../../src/domain/evaluation/language/expressions.ts";
import { compileGroup } from "../../src/domain/evaluation/language/groups.ts";
import { compareText, compileGlob, OPERATOR_NAMES } from "../../src/domain/evaluation/language/operators.ts";
import { actual, comparison, OPERANDS } from "../support/rules/rule-arbitraries.ts";
import { isBefore, says, type Value } from "../support/rules/rule-reference.ts";
import { aTurn, NOW } from "../support/rules/evaluation.ts";
import { cases } from "../support/properties.ts";

describe("rule conditions", () => {
  it("compare as the plain words of their operators say, for any pair of values", () => {
    fc.assert(
      fc.property(comparison, actual, (part, value) => {
        const holds = compileComparison(part)(value, aTurn());
        assert.equal(
          holds,
          says[part.op](value, part.value as Value, NOW),
          `${JSON.stringify(value)} ${JSON.stringify(part)}`,
        );
      }),
      { numRuns: cases(5_000) },
    );
  });

  it("are false on missing data, but for the four negations", () => {
    const trueOnMissing = OPERATOR_NAMES.filter((op) => {
      const [value] = fc.sample(OPERANDS[op], 1);
      return compileComparison({ op, ...(value === undefined ? {} : { value }) })(undefined, aTurn());
    });
    assert.deepEqual(trueOnMissing, ["neq", "not_in", "not_contains", "not_exists"]);
    for (const op of ["eq", "gt", "contains", "starts_with", "before", "within_last"] as const) {
      const reference = { op, value: { $ref: "event.properties.none" } };
      assert.equal(compileComparison(reference)("x", aTurn()), false, `${op} with a missing reference`);
    }
  });

  it("see own properties only", () => {
    const exists = (path: string, properties: object): boolean =>
      compileGroup({ all: [{ type: "event_property", path, op: "exists" }] })(
        aTurn({ properties: properties as never }),
      );
    assert(!exists("toString", {}));
    assert(!exists("a.valueOf", { a: {} }));
    assert(exists("toString", { toString: 1 }));
    assert(!exists("a.map", { a: [] }));
    assert(!exists("text.length", { text: "abc" }));
    assert(exists("items.0.price", { items: [{ price: 1 }] }));
    assert(exists("nothing", { nothing: null }), "null is a value");
  });

  it("order text by code point, also beyond the basic plane", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (a, b) => {
        assert.equal(compareText(a, b) < 0, isBefore(a, b));
      }),
    );
    assert(compareText("\uFFFD", "\u{1F600}") < 0);
  });

  it("match globs against any text", () => {
    const matches = (glob: string, text: string): boolean => compileGlob(glob)(text);
    assert.equal(matches("*a".repeat(100), `${"a".repeat(1_000)}b`), false);
    assert.equal(matches("*", "x".repeat(1_025)), false, "longer texts never match");
    assert(matches("level-?-*", "level-7-boss") && !matches("?", "") && matches("?", "\u{1F600}"));
  });
});
