import { GAP, type Letter, lettersOf } from "./letters.ts";

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
export type Reading = keyof Pick<Letter, "plain" | "leet" | "other">;

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
