import assert from "node:assert/strict";
import {
  addTo,
  meanDifference,
  type Sample,
  shareDifference,
  studentT95,
} from "../../src/domain/kernel/intervals.ts";

const sampleOf = (numbers: readonly number[]): Sample => {
  const sample = { n: 0, mean: 0, squares: 0 };
  for (const one of numbers) addTo(sample, one);
  return sample;
};

const near = (actual: number, expected: number, within: number): void =>
  assert.ok(Math.abs(actual - expected) <= within, `${actual} is not ${expected}`);

describe("intervals of differences", () => {
  it("take the quantiles of Student's distribution that tables have", () => {
    const table = [
      [1, 12.706205],
      [2, 4.302653],
      [3, 3.182446],
      [5, 2.570582],
      [10, 2.228139],
      [30, 2.042272],
      [100, 1.983972],
      [1_000, 1.962339],
      [1_000_000, 1.959966],
    ] as const;
    for (const [degrees, t] of table) near(studentT95(degrees), t, 1e-6);
  });

  it("are Welch's for means: as R's t.test has them for its data set sleep", () => {
    const a = sampleOf([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0, 2]);
    const b = sampleOf([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]);
    const { value, low, high } = meanDifference(a, b)!;
    near(value, -1.58, 1e-9);
    near(low, -3.365_483_2, 1e-6);
    near(high, 0.205_483_2, 1e-6);
  });

  it("are Newcombe's for shares: as in the first example of his paper", () => {
    const { value, low, high } = shareDifference({ hits: 56, n: 70 }, { hits: 48, n: 80 })!;
    near(value, 0.2, 1e-9);
    near(low, 0.0524, 5e-5);
    near(high, 0.3339, 5e-5);
  });

  it("are of the same shape for numbers of any size", () => {
    const [a, b] = [
      [1, 2, 4, 9],
      [3, 5, 5, 12, 40],
    ] as const;
    const small = meanDifference(sampleOf(a), sampleOf(b))!;
    const large = meanDifference(sampleOf(a.map((x) => x * 1e100)), sampleOf(b.map((x) => x * 1e100)))!;
    for (const end of ["value", "low", "high"] as const) near(large[end] / 1e100, small[end], 1e-9);
  });

  it("are none of groups that are too small, and a point where nothing varies", () => {
    assert.equal(shareDifference({ hits: 0, n: 0 }, { hits: 1, n: 2 }), undefined);
    assert.equal(meanDifference(sampleOf([1]), sampleOf([1, 2])), undefined);
    assert.deepEqual(meanDifference(sampleOf([3, 3]), sampleOf([1, 1])), { value: 2, low: 2, high: 2 });
  });
});
