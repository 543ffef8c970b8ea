import assert from "node:assert/strict";
import { compileComparison } from "../../src/domain/evaluation/language/expressions.ts";
import * as fc from "fast-check";
import {
  compileGroup,
  type ConditionNode,
  conditionProblems,
  explainGroup,
} from "../../src/domain/evaluation/language/groups.ts";
import { compareText, compileGlob, OPERATOR_NAMES } from "../../src/domain/evaluation/language/operators.ts";
import { actual, comparison, OPERANDS } from "../support/rules/rule-arbitraries.ts";
import { isBefore, says, type Value } from "../support/rules/rule-reference.ts";
import { aPlayer, aTurn, NOW } from "../support/rules/rules.ts";
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

  it("show every leaf in a trace, also those that decide nothing", () => {
    const none = { type: "event_property", path: "x.y", op: "eq", value: 1 };
    const level = {
      type: "player_property",
      field: "level",
      op: "gte",
      value: { $ref: "event.properties.need" },
    };
    const node = { all: [none, { any: [level, none] }] };
    assert.deepEqual(conditionProblems(node), []);
    assert.deepEqual(explainGroup(node as ConditionNode, aTurn({ properties: { need: 1, x: { y: 2 } } })), {
      path: "conditions",
      type: "all",
      pass: false,
      children: [
        { path: "conditions.all[0]", type: "event_property", op: "eq", expected: 1, actual: 2, pass: false },
        {
          path: "conditions.all[1]",
          type: "any",
          pass: true,
          children: [
            {
              path: "conditions.all[1].any[0]",
              type: "player_property",
              op: "gte",
              expected: 1,
              actual: 1,
              pass: true,
            },
            {
              path: "conditions.all[1].any[1]",
              type: "event_property",
              op: "eq",
              expected: 1,
              actual: 2,
              pass: false,
            },
          ],
        },
      ],
    });
  });

  it("see own properties only", () => {
    const exists = (path: string, properties: object): boolean =>
      compileGroup({ all: [{ type: "event_property", path, op: "exists" }] })(
        aTurn({ properties: properties as never }),
      );
    assert(!exists("toString", {}));
    assert(!exists("a.valueOf", { a: {} }));
    assert(!exists("inherited", Object.create({ inherited: 1 }) as object));
    assert(!exists("text.length", { text: "abc" }));
    assert(exists("items.0.price", { items: [{ price: 1 }] }));
    assert(exists("nothing", { nothing: null }), "null is a value");
  });

  it("read the player's fields, null ones as missing", () => {
    const holds = (field: string, op: string, value?: unknown): boolean => {
      const player = aPlayer({
        xp: 150,
        level: 2,
        tags: ["vip"],
        country: "SE",
        attributes: { a: { b: 5 } },
      });
      return compileGroup({ all: [{ type: "player_property", field, op, value }] } as ConditionNode)(
        aTurn({ player }),
      );
    };
    assert(
      holds("xp", "eq", 150) &&
        holds("level", "gt", 1) &&
        holds("tags", "contains", "vip") &&
        holds("country", "in", ["SE"]),
    );
    assert(
      holds("attributes.a.b", "eq", 5) &&
        holds("status", "eq", "ACTIVE") &&
        holds("externalUserId", "starts_with", "u"),
    );
    assert(
      holds("createdAt", "older_than", "P30D") &&
        holds("lastSeenAt", "not_exists") &&
        holds("timezone", "not_exists"),
    );
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
