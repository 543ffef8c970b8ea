import { GAP } from "./letters.ts";
import { REPEATS_SEEN, type Run, spellingsOf } from "./runs.ts";

export const LIST_ACTIONS = ["MASK", "BLOCK", "HOLD", "ALLOW"] as const;
export type ListAction = (typeof LIST_ACTIONS)[number];
export const LIST_MATCHES = ["WORD", "SUBSTRING"] as const;
export type ListMatch = (typeof LIST_MATCHES)[number];

/** Letters of a word, however it is written; UTF-16 units. */
export const WORD_LENGTH_MAX = 64;

/** What the words of a list have in common. `action` is undefined where the channel decides. */
export type Listed = {
  list: string;
  action: ListAction | undefined;
  /** Whether the word must begin, and end, where a word does. */
  isStart: boolean;
  isEnd: boolean;
};

/** One spelling of one word. */
export type Rule = Listed & { word: string; spelling: string };

/**
 * Word lists, compiled: rules by their letters without repeats. Looking a text up takes a step for each
 * letter and length of a word that begins like it, 64 at most, however many words there are. An Aho-Corasick
 * automaton would take one step for each letter, and a node for each letter of 250,000 words.
 */
export type WordFilter = {
  version: string;
  words: number;
  rules: ReadonlyMap<string, readonly Rule[]>;
  /** By the first two letters: how many runs rules that begin so have, ascending. */
  lengths: ReadonlyMap<string, readonly number[]>;
};

/** A word that was found; positions are UTF-16 units of the text, `end` is exclusive. */
export type Hit = { rule: Rule; start: number; end: number };

const REPEATED = /(.)\1+/gsu;

const squeeze = (spelling: string): string => spelling.replace(REPEATED, "$1");

/**
 * Rules that have the same letters and differ in doubled ones, the action or the match; what is beyond is
 * left out. Else lists made for it would make every text slow.
 */
const TWINS_MAX = 32;

const beginOf = (letters: readonly string[], at = 0): string => letters[at]! + (letters[at + 1] ?? "");

/** Whether a word can be compared at all, and is no longer than words may be. */
export const isComparable = (word: string): boolean => {
  const spellings = spellingsOf(word);
  return spellings.length > 0 && spellings.every((spelling) => spelling.length <= WORD_LENGTH_MAX);
};

/** Compiles lists; words that cannot be compared are left out. */
export const compileWords = (
  version: string,
  lists: Iterable<Listed & { words: readonly string[] }>,
): WordFilter => {
  const rules = new Map<string, Rule[]>();
  const lengths = new Map<string, Set<number>>();
  let words = 0;
  for (const { words: listed, ...common } of lists)
    for (const word of listed) {
      words += 1;
      for (const spelling of spellingsOf(word, common.action === "ALLOW")) {
        if (spelling.length > WORD_LENGTH_MAX) continue;
        const key = squeeze(spelling);
        const letters = [...key];
        addTwin(rules, key, { ...common, word, spelling });
        const begin = beginOf(letters);
        const known = lengths.get(begin);
        if (known) known.add(letters.length);
        else lengths.set(begin, new Set([letters.length]));
      }
    }
  return { version, words, rules, lengths: new Map(sortEach(lengths)) };
};

const addTwin = (rules: Map<string, Rule[]>, key: string, rule: Rule): void => {
  const twins = rules.get(key);
  if (!twins) rules.set(key, [rule]);
  else if (twins.length < TWINS_MAX && !twins.some((twin) => isSame(twin, rule))) twins.push(rule);
};

const isSame = (one: Rule, other: Rule): boolean =>
  one.spelling === other.spelling &&
  one.action === other.action &&
  one.isStart === other.isStart &&
  one.isEnd === other.isEnd;

const sortEach = (lengths: ReadonlyMap<string, ReadonlySet<number>>): [string, number[]][] =>
  [...lengths].map(([begin, set]) => [begin, [...set].toSorted((one, other) => one - other)]);

/** Of a project without lists of its own. */
export const NO_LISTS: WordFilter = compileWords("", []);

/** What was found, and in how many steps. */
export type Found = { hits: Hit[]; steps: number };

/** Every word of a filter in a text, in any reading of it. */
export const findWords = (filter: WordFilter, readings: readonly Run[][]): Found => {
  const found: Found = { hits: [], steps: 0 };
  if (filter.words > 0) for (const runs of readings) findIn(filter, runs, found);
  return found;
};

/** A reading as one text, and where each run begins in it. */
type Line = { runs: readonly Run[]; letters: string[]; text: string; offsets: number[] };

const lineOf = (runs: readonly Run[]): Line => {
  const letters = runs.map(({ letter }) => letter);
  const offsets = [0];
  for (const letter of letters) offsets.push(offsets.at(-1)! + letter.length);
  return { runs, letters, text: letters.join(""), offsets };
};

const findIn = (filter: WordFilter, runs: readonly Run[], found: Found): void => {
  const line = lineOf(runs);
  for (let from = 0; from < runs.length; from += 1) {
    found.steps += 1;
    for (const begin of new Set([beginOf(line.letters, from), line.letters[from]!]))
      for (const length of filter.lengths.get(begin) ?? []) {
        found.steps += 1;
        if (from + length > runs.length) break;
        findAt(filter, line, { from, upTo: from + length }, found);
      }
  }
};

/** Runs of a line; `upTo` is exclusive. */
type Stretch = { from: number; upTo: number };

const findAt = (filter: WordFilter, line: Line, stretch: Stretch, { hits }: Found): void => {
  const { runs, text, offsets } = line;
  const { from, upTo } = stretch;
  for (const rule of filter.rules.get(text.slice(offsets[from], offsets[upTo])) ?? [])
    if (isBounded(rule, runs, stretch) && isDoubled(rule, runs, stretch))
      hits.push({ rule, start: runs[from]!.start, end: runs[upTo - 1]!.end });
};

const LETTER = /[\p{L}\p{N}]/u;

/** Whether a word goes on from one run to the other, so that none ends between them. */
const isJoined = (inside: Run, beside: Run | undefined): boolean =>
  beside !== undefined && beside.isWordy && LETTER.test(inside.letter);

const isBounded = (rule: Rule, runs: readonly Run[], { from, upTo }: Stretch): boolean =>
  !(rule.isStart && isJoined(runs[from]!, runs[from - 1])) &&
  !(rule.isEnd && isJoined(runs[upTo - 1]!, runs[upTo]));

/** Whether letters stand there as often as in the rule, or so often that it tells nothing. */
const isDoubled = (rule: Rule, runs: readonly Run[], { from, upTo }: Stretch): boolean => {
  let at = 0;
  for (let index = from; index < upTo; index += 1) {
    const { letter, count } = runs[index]!;
    let wanted = 0;
    for (; rule.spelling.startsWith(letter, at); at += letter.length) wanted += 1;
    if (count === wanted || count > REPEATS_SEEN || letter === GAP) continue;
    // At an open edge the rest of the letters are not the word's.
    if (!isOpenAt(rule, index - from, upTo - 1 - index) || count < wanted) return false;
  }
  return true;
};

const isOpenAt = (rule: Rule, before: number, after: number): boolean =>
  (before === 0 && !rule.isStart) || (after === 0 && !rule.isEnd);
