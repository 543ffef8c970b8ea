import assert from "node:assert/strict";
import * as fc from "fast-check";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import {
  buildCurve,
  CurveInput,
  DEFAULT_CURVE,
  levelOf,
  levelProgress,
  LEVELS_MAX,
} from "../../src/domain/evaluation/xp/levels.ts";

const tables = fc
  .uniqueArray(fc.integer({ min: 1, max: 5_000 }), { maxLength: 60 })
  .map((steps) => [0, ...steps.toSorted((a, b) => a - b)])
  .map((thresholds) => buildCurve({ type: "TABLE", params: { thresholds } }));

const levelByScan = (thresholds: readonly number[], xp: number): number =>
  thresholds.filter((threshold) => threshold <= xp).length;

const refuses = (input: CurveInput, field: RegExp): void => {
  assert.throws(
    () => buildCurve(input),
    (error) => error instanceof DomainError && error.code === "VALIDATION_ERROR" && field.test(error.message),
  );
};

describe("level curves", () => {
  it("find the level that a scan of the thresholds finds", () => {
    fc.assert(
      fc.property(tables, fc.integer({ min: 0, max: 6_000 }), (curve, xp) => {
        assert.equal(levelOf(curve, xp), levelByScan(curve.thresholds, xp));
      }),
    );
  });

  it("show progress between the bounds of the level", () => {
    fc.assert(
      fc.property(tables, fc.integer({ min: 0, max: 6_000 }), (curve, xp) => {
        const progress = levelProgress(curve, { xp, level: levelOf(curve, xp) });
        assert(progress.xpForLevel <= xp);
        assert(progress.percent >= 0 && progress.percent <= 100);
        assert.equal(progress.maxLevel, curve.thresholds.length);
        if (progress.xpForNextLevel === null)
          assert.deepEqual([progress.level, progress.percent], [progress.maxLevel, 100]);
        else assert(xp < progress.xpForNextLevel && progress.percent < 100);
      }),
    );
  });

  it("show progress from the level that a player has, whatever XP and the curve would give", () => {
    const curve = buildCurve({ type: "TABLE", params: { thresholds: [0, 10, 20, 40] } });
    const shown = (xp: number, level: number) => {
      const { level: of, xpForLevel, xpForNextLevel, percent } = levelProgress(curve, { xp, level });
      return [of, xpForLevel, xpForNextLevel, percent];
    };
    assert.deepEqual(shown(25, 3), [3, 20, 40, 25]);
    assert.deepEqual(shown(5, 3), [3, 20, 40, 0]);
    assert.deepEqual(shown(35, 2), [2, 10, 20, 100]);
    assert.deepEqual(shown(5, 9), [9, 40, null, 100]);
  });

  it("follow the formulas of their types", () => {
    const linear = buildCurve({ type: "LINEAR", params: { base: 50, maxLevel: 4 } });
    assert.deepEqual(linear.thresholds, [0, 50, 100, 150]);
    const quadratic = buildCurve({ type: "QUADRATIC", params: { base: 100, growth: 50, maxLevel: 6 } });
    assert.deepEqual(quadratic.thresholds, [0, 100, 250, 450, 700, 1_000]);
    const exponential = buildCurve({
      type: "EXPONENTIAL",
      params: { base: 100, ratio: 1.15, roundTo: 5, maxLevel: 6 },
    });
    assert.deepEqual(exponential.thresholds, [0, 100, 215, 345, 495, 670]);
  });

  it("default to a hundred quadratic levels", () => {
    assert.equal(DEFAULT_CURVE.thresholds.length, 100);
    for (let level = 1; level <= 100; level++) {
      const expected = 100 * (level - 1) + (50 * (level - 1) * (level - 2)) / 2;
      assert.equal(DEFAULT_CURVE.thresholds[level - 1], expected);
    }
  });

  it("keep every XP total on the last level beyond the last threshold", () => {
    assert.equal(levelOf(DEFAULT_CURVE, Number.MAX_SAFE_INTEGER), 100);
    assert.equal(levelOf(buildCurve({ type: "TABLE", params: { thresholds: [0] } }), 10), 1);
  });

  it("are refused when they do not start at 0 or do not rise", () => {
    refuses({ type: "TABLE", params: { thresholds: [1, 2] } }, /params\.thresholds: level 1/);
    refuses({ type: "TABLE", params: { thresholds: [0, 5, 5] } }, /level 3 must need more XP/);
    refuses(
      { type: "EXPONENTIAL", params: { base: 1, ratio: 1.1, roundTo: 100, maxLevel: 9 } },
      /level 2 must/,
    );
  });

  it("are refused when a level needs more than the safe integers", () => {
    refuses(
      { type: "EXPONENTIAL", params: { base: 1_000, ratio: 3, roundTo: 1, maxLevel: LEVELS_MAX } },
      /2\^53 - 1/,
    );
    refuses({ type: "LINEAR", params: { base: Number.MAX_SAFE_INTEGER, maxLevel: 3 } }, /level 3 needs more/);
  });

  it("take no more levels and no other fields than documented", () => {
    const parses = (input: unknown): boolean => CurveInput.safeParse(input).success;
    assert(!parses({ type: "LINEAR", params: { base: 1, maxLevel: LEVELS_MAX + 1 } }));
    assert(!parses({ type: "LINEAR", params: { base: 1, maxLevel: 5, growth: 1 } }));
    assert(!parses({ type: "EXPONENTIAL", params: { base: 1, ratio: 1, maxLevel: 5 } }));
    assert(!parses({ type: "CUBIC", params: {} }));
    assert(parses({ type: "EXPONENTIAL", params: { base: 1, ratio: 3, maxLevel: 5 } }));
  });
});
