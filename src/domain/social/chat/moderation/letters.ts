import { resolveConfusablesTransformer } from "obscenity";

/**
 * A normalized letter for comparing words: without case, accents and disguise. `plain` and `leet` differ
 * where the sign may stand for a letter: `@` is a gap and an `a`, `1` a digit and an `i` (in `other`: an
 * `l`).
 */
export type Letter = {
  plain: string;
  leet: string;
  other: string;
  /** Whether it continues a word: a letter or digit of a script that puts spaces between words. */
  isWordy: boolean;
  /** Whether it is one, and not a digit or a sign. */
  isLetter: boolean;
  /** Its position in the text; UTF-16 units, `end` is exclusive. */
  start: number;
  end: number;
};

/** Represents every sign that is no letter, digit or picture. */
export const GAP = " ";

const LEET: ReadonlyMap<string, string> = new Map([
  ["0", "o"],
  ["1", "i"],
  ["3", "e"],
  ["4", "a"],
  ["5", "s"],
  ["6", "g"],
  ["7", "t"],
  ["8", "b"],
  ["9", "g"],
  ["@", "a"],
  ["$", "s"],
  ["!", "i"],
  ["|", "i"],
  ["(", "c"],
  ["+", "t"],
  ["\u20ac", "e"],
  ["\u00a1", "i"],
]);
/** Signs that may equally stand for an `l`. */
const I_OR_L: ReadonlySet<string> = new Set(["1", "!", "|"]);

/** Not the iota under a vowel, which is a letter of its own in capitals. */
const UNSEEN = /(?!\u0345)[\p{Default_Ignorable_Code_Point}\p{Script=Inherited}\p{Cf}]/u;
const SHOWN = /[\p{L}\p{N}\p{M}\p{So}]/u;
const WORDY = /[\p{L}\p{N}]/u;
/** Scripts written without spaces, in which a word may begin and end anywhere. */
const UNSPACED = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}\p{sc=Lao}\p{sc=Khmer}\p{sc=Myanmar}]/u;

const lookAlikes = resolveConfusablesTransformer();

/**
 * Returns the Latin letter that a sign of another script looks like, otherwise the sign itself; lower case.
 */
const lookAlike = (sign: string): string => {
  const found = lookAlikes.transform(sign.codePointAt(0)!);
  return (found === undefined ? sign : String.fromCodePoint(found)).toLowerCase();
};

/** Unicode's full case folding, in which `ß` is `SS` and both small sigmas are one; without compatibility forms. */
const foldCase = (character: string): string =>
  character.normalize("NFKD").toLowerCase().toUpperCase().toLowerCase().normalize("NFKD");

type Sign = Pick<Letter, "plain" | "leet" | "other" | "isLetter">;

const LETTER = /\p{L}/u;

const signOf = (sign: string): Sign => {
  const plain = SHOWN.test(sign) ? sign : GAP;
  const leet = LEET.get(sign) ?? plain;
  return { plain, leet, other: I_OR_L.has(sign) ? "l" : leet, isLetter: LETTER.test(plain) };
};

/** Returns the signs that one character of a text consists of; none for invisible ones. */
const fold = (character: string): Sign[] => {
  if (UNSEEN.test(character)) return [];
  const signs: Sign[] = [];
  for (const part of foldCase(character)) {
    if (UNSEEN.test(part)) continue;
    for (const sign of part < "\u0080" || LEET.has(part) ? part : lookAlike(part)) signs.push(signOf(sign));
  }
  return signs;
};

type Folded = { signs: readonly Sign[]; isWordy: boolean };

const KEPT = 10_000;
const folded = new Map<string, Folded>();

/** As `fold`, memoized: texts consist of few characters. */
const foldOnce = (character: string): Folded => {
  let known = folded.get(character);
  if (!known) {
    if (folded.size >= KEPT) folded.clear();
    const isWordy = WORDY.test(character) && !UNSPACED.test(character);
    folded.set(character, (known = { signs: fold(character), isWordy }));
  }
  return known;
};

/**
 * Returns the letters of a text, normalizing compatibility forms, case, accents, zero-width signs and
 * look-alikes of other scripts. Total for any string; a character yields 18 letters at most.
 */
export const lettersOf = (text: string): Letter[] => {
  const letters: Letter[] = [];
  let start = 0;
  for (const character of text) {
    const end = start + character.length;
    const { signs, isWordy } = foldOnce(character);
    // An accent, or an invisible character, belongs to the preceding letter.
    if (signs.length === 0 && letters.length > 0) letters.at(-1)!.end = end;
    for (const sign of signs) letters.push({ ...sign, isWordy, start, end });
    start = end;
  }
  return letters;
};

/** Returns a text without repetition and disguise, to compare whether two are the same. */
export const essenceOf = (text: string): string => {
  let essence = "";
  let last = "";
  for (const character of text)
    for (const { leet } of foldOnce(character).signs) {
      if (leet !== GAP && leet !== last) essence += leet;
      last = leet;
    }
  return essence;
};
