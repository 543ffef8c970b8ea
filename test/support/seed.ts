import { SEED } from "./properties.ts";

/** Numbers that look random and follow from a seed alone. */
export type Random = {
  /** From 0 to below 1. */
  next(): number;
  /** A whole number from `from` to `to`, both included. */
  between(from: number, to: number): number;
  chance(share: number): boolean;
  pick<T>(list: readonly [T, ...T[]] | readonly T[]): T;
  shuffle<T>(list: readonly T[]): T[];
  /** Numbers of somebody's own: they do not depend on who else takes some meanwhile. */
  fork(name: string): Random;
};

const hash = (text: string): number => {
  let value = 2_166_136_261;
  for (const char of text) value = Math.imul(value ^ char.codePointAt(0)!, 16_777_619);
  return value >>> 0;
};

/** The generator called mulberry32. */
export const randomOf = (seed: string): Random => {
  let state = hash(seed);
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296;
  };
  const between = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  return {
    next,
    between,
    chance: (share) => next() < share,
    pick: (list) => {
      if (list.length === 0) throw new Error("nothing to pick from");
      return list[between(0, list.length - 1)]!;
    },
    shuffle: (list) =>
      list
        .map((item) => ({ item, at: next() }))
        .toSorted((a, b) => a.at - b.at)
        .map(({ item }) => item),
    fork: (name) => randomOf(`${seed}/${name}`),
  };
};

/**
 * Random choices of a suite, to be called where it is described. `SEED=… npm test <file>` makes the same ones
 * again; what fails says its seed.
 */
export const seeded = (): Random => {
  afterEach(function () {
    if (this.currentTest?.isFailed())
      process.stdout.write(`      SEED=${SEED} makes these random choices again\n`);
  });
  return randomOf(SEED);
};
