/** Generates numbers from 0 to below 1, the same for the same seed (mulberry32). */
export type Random = () => number;

export const createRandom = (seed: number): Random => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
};

/** Returns a whole number from `low` to `high`, inclusive. */
export const wholeFrom = (random: Random, low: number, high: number): number =>
  low + Math.floor(random() * (high - low + 1));

export const oneOf = <T>(random: Random, values: readonly T[]): T =>
  values[Math.floor(random() * values.length)]!;

const CONSONANTS = "bdfgklmnprstvz".split("");
const VOWELS = "aeiou".split("");

/** Generates a pronounceable word: syllables of a consonant and a vowel, about 6 bits each. */
export const spokenWord = (random: Random, syllables: number): string =>
  Array.from({ length: syllables }, () => oneOf(random, CONSONANTS) + oneOf(random, VOWELS)).join("");

const ENDINGS = ["", "", "n", "r", "s", "l", "k"];

/** Generates a first and a last name. */
export const personName = (random: Random): { first: string; last: string } => ({
  first: capital(spokenWord(random, 2) + oneOf(random, ENDINGS)),
  last: capital(spokenWord(random, wholeFrom(random, 2, 3)) + oneOf(random, ENDINGS)),
});

export const capital = (word: string): string => word.slice(0, 1).toUpperCase() + word.slice(1);
