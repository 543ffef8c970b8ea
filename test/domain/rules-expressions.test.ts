import assert from "node:assert/strict";
import * as fc from "fast-check";
import type { Json } from "../../src/domain/kernel/events/events.ts";
import { compileExpression, Expression } from "../../src/domain/evaluation/language/expressions.ts";
import { DEFAULT_SETTINGS } from "../../src/domain/evaluation/project-settings.ts";
import { aPass, aPlan, aPlayerState } from "../support/rules/plan.ts";
import { aTurn } from "../support/rules/evaluation.ts";
import { cases } from "../support/properties.ts";

describe("expressions", () => {
  const valueOf = (expression: unknown, properties: Json = {}): [number, string[]] => {
    const turn = aTurn({ properties });
    return [compileExpression(Expression.parse(expression))(turn), turn.warnings];
  };
  const n = { $ref: "event.properties.n" };

  it("calculate", () => {
    const sums: [unknown, number][] = [
      [{ op: "add", args: [n, 1, 2] }, 10],
      [{ op: "sub", args: [n, 1, 2] }, 4],
      [{ op: "mul", args: [n, 2] }, 14],
      [{ op: "div", args: [n, 2] }, 3.5],
      [{ op: "min", args: [n, 3] }, 3],
      [{ op: "max", args: [n, 30] }, 30],
      [{ op: "floor", args: [{ op: "div", args: [n, 2] }] }, 3],
      [{ op: "ceil", args: [3.2] }, 4],
      [{ op: "round", args: [2.5] }, 3],
      [{ op: "abs", args: [{ op: "sub", args: [1, n] }] }, 6],
      [
        {
          op: "table",
          input: n,
          steps: [
            [0, 1],
            [7, 5],
            [8, 9],
          ],
        },
        5,
      ],
      [{ op: "table", input: n, steps: [[8, 9]] }, 0],
      [{ $ref: "event.properties.none", default: 4 }, 4],
    ];
    for (const [expression, expected] of sums)
      assert.deepEqual(valueOf(expression, { n: 7 }), [expected, []], JSON.stringify(expression));
  });

  it("count what is no number and a division by zero as 0, with a warning", () => {
    for (const value of ["7", null, true, [1], { a: 1 }, undefined]) {
      const [result, warnings] = valueOf(
        { op: "add", args: [n, 1] },
        value === undefined ? {} : { n: value },
      );
      assert.deepEqual([result, warnings], [1, ["event.properties.n is not a number: 0 is used"]]);
    }
    assert.deepEqual(valueOf({ op: "div", args: [5, n] }, { n: 0 }), [0, ["division by zero: 0 is used"]]);
  });

  it("read lives and what is free of a balance, and take an unknown currency for 0, with a warning", () => {
    const plan = aPlan({
      define: {
        currency: [
          { key: "gold", name: "Gold" },
          { key: "gems", name: "Gems", initialBalance: 3 },
        ],
      },
      settings: { lives: { ...DEFAULT_SETTINGS.lives, enabled: true, start: 4 } },
    });
    const player = aPlayerState();
    player.balances.set("gold", { balance: 50, held: 8, earned: 50, spent: 0 });
    const { turn, warnings } = aPass({ plan, player });
    const values = ["lives", "currencies.gold", "currencies.gems", "currencies.none"].map((name) =>
      compileExpression({ $ref: `player.${name}` })(turn),
    );
    // Long after the player was made, lives are full.
    assert.deepEqual(values, [5, 42, 3, 0]);
    assert.deepEqual(warnings, ["player.currencies.none is not a number: 0 is used"]);
  });

  it("give a number within the safe integers, whatever they are and whatever the event holds", () => {
    const { node } = fc.letrec<{ node: unknown }>((tie) => ({
      node: fc.oneof(
        { maxDepth: 4, withCrossShrink: true },
        fc.oneof(
          fc.maxSafeInteger(),
          fc.constant(n),
          fc.constant({ $ref: "event.properties.text", default: 3 }),
        ),
        fc.record({
          op: fc.constantFrom("add", "sub", "mul", "div", "min", "max"),
          args: fc.array(tie("node"), { minLength: 2, maxLength: 2 }),
        }),
        fc.record({ op: fc.constantFrom("floor", "ceil", "round", "abs"), args: fc.tuple(tie("node")) }),
      ),
    }));
    fc.assert(
      fc.property(
        node,
        fc.oneof(fc.double({ noNaN: true }), fc.string(), fc.constant(null)),
        (expression, value) => {
          const parsed = Expression.safeParse(expression);
          fc.pre(parsed.success);
          const [result] = valueOf(parsed.data, { n: value, text: "x" });
          assert(Number.isFinite(result) && Math.abs(result) <= Number.MAX_SAFE_INTEGER);
        },
      ),
      { numRuns: cases(1_000) },
    );
  });
});
