import { resolveConfusablesTransformer } from "obscenity";

/**
 * A normalized letter for comparing words: without case, accents and disguise. `plain` and `leet` differ
 * where the sign may stand for a letter: `@` is a gap and an `a`, `1` a digit and an `i` (in `other`: an
 * `l`).
 */
type Letter = {
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

/**
 * A letter and its number of consecutive occurrences. `isMeant`: one of them is no digit or sign that only may
 * stand for it.
 */
export type Run = {
  letter: string;
  count: number;
  isWordy: boolean;
  isMeant: boolean;
  start: number;
  end: number;
};

/** One way to read a text. */
type Reading = keyof Pick<Letter, "plain" | "leet" | "other">;

/** Runs longer than this are equal to one another. */
export const REPEATS_SEEN = 2;

const runsOf = (letters: readonly Letter[], reading: Reading): Run[] => {
  const runs: Run[] = [];
  let last: Run | undefined;
  for (const one of letters) {
    const letter = one[reading];
    const { start, end } = one;
    // Brackets and spaces in the expansion of a letter such as ⑴ end a word like any others.
    const isWordy = one.isWordy && letter !== GAP;
    const isMeant = one.isLetter || reading === "plain";
    if (last?.letter !== letter) {
      last = { letter, count: 1, isWordy, isMeant, start, end };
      runs.push(last);
      continue;
    }
    last.count += 1;
    last.isWordy ||= isWordy;
    last.isMeant ||= isMeant;
    last.end = end;
  }
  return runs;
};

/** Minimum number of separated letters of a word: fewer are an initial or two. */
const SPELLED_MIN = 3;
/** Maximum UTF-16 units between two letters that belong to one word. */
const SPELLED_GAP_MAX = 3;

type Spelling = { runs: Run[]; gap: string | undefined };

const gapAfter = (text: string, runs: readonly Run[], at: number): string | undefined => {
  const gap = runs[at + 1];
  if (gap?.letter !== GAP || gap.end - gap.start > SPELLED_GAP_MAX) return undefined;
  return text.slice(gap.start, gap.end);
};

/**
 * Returns words that are spelled out (`f u c k`, `f.u.c.k`) without the gaps, each between two gaps. The gaps
 * of one word are the same; everything else is omitted.
 */
const spelledOut = (text: string, runs: readonly Run[]): Run[] => {
  const found: Run[] = [];
  const isAlone = (at: number): boolean =>
    runs[at] !== undefined &&
    runs[at].letter !== GAP &&
    (runs[at - 1] ?? GAP_RUN).letter === GAP &&
    (runs[at + 1] ?? GAP_RUN).letter === GAP;
  let open: Spelling = { runs: [], gap: undefined };
  const close = (): void => {
    if (open.runs.length >= SPELLED_MIN) found.push(GAP_RUN, ...open.runs);
    open = { runs: [], gap: undefined };
  };
  for (let at = 0; at < runs.length; at += 1) {
    if (!isAlone(at)) continue;
    open.runs.push(runs[at]!);
    const gap = gapAfter(text, runs, at);
    const continues = gap !== undefined && (open.gap ?? gap) === gap && isAlone(at + 2);
    open.gap ??= gap;
    if (!continues) close();
  }
  close();
  return joinEqual(found);
};

const GAP_RUN: Run = { letter: GAP, count: 1, isWordy: false, isMeant: false, start: 0, end: 0 };

/** Joins runs of one letter that gaps had separated. */
const joinEqual = (runs: readonly Run[]): Run[] => {
  const joined: Run[] = [];
  for (const run of runs) {
    const last = joined.at(-1);
    if (last?.letter !== run.letter || run.letter === GAP) joined.push({ ...run });
    else Object.assign(last, { count: last.count + run.count, end: run.end });
  }
  return joined;
};

/**
 * Returns every way to read a text: literally, with signs for letters, each also with spelled-out words
 * joined.
 */
export const readingsOf = (text: string): Run[][] => {
  const letters = lettersOf(text);
  const readings: Reading[] = ["plain"];
  if (letters.some(({ plain, leet }) => plain !== leet)) readings.push("leet");
  if (letters.some(({ leet, other }) => leet !== other)) readings.push("other");
  return readings.flatMap((reading) => {
    const runs = runsOf(letters, reading);
    const spelled = spelledOut(text, runs);
    return spelled.length === 0 ? [runs] : [runs, spelled];
  });
};

/** Most words of most lists: only their repeats must be shortened. */
const SIMPLE = /^[a-z]+$/u;
const REPEATED = /(.)\1{2,}/gu;

const DIGIT_OR_SIGN = /[^\p{L}\p{M}\s]/u;

/**
 * Returns the spellings of a listed word, as letters without gaps at either end: with signs replaced by
 * letters, and literally if it contains digits. None when nothing of it can be compared. For allowed words
 * only the literal form counts: `45s` does not allow what it may stand for.
 */
export const spellingsOf = (word: string, isAllowed = false): string[] => {
  if (SIMPLE.test(word)) return [word.replace(REPEATED, "$1$1")];
  const letters = lettersOf(word);
  const spelling = (reading: Reading): string => {
    const runs = runsOf(letters, reading).filter(({ letter }, at, all) => {
      const isEdge = at === 0 || at === all.length - 1;
      return !(isEdge && letter === GAP);
    });
    return runs
      .map(({ letter, count }) => letter.repeat(letter === GAP ? 1 : Math.min(count, REPEATS_SEEN)))
      .join("");
  };
  if (!DIGIT_OR_SIGN.test(word)) return spelling("plain") === "" ? [] : [spelling("plain")];
  const hasLetter = letters.some(({ plain }) => /\p{L}/u.test(plain));
  const isDigits = !letters.some(({ plain, leet }) => plain === GAP && leet !== GAP);
  const isSeenThrough = hasLetter && !(isAllowed && isDigits);
  const found = [...(isDigits ? [spelling("plain")] : []), ...(isSeenThrough ? [spelling("leet")] : [])];
  return [...new Set(found)].filter((one) => one !== "");
};
