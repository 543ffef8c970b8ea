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
  /** By the first letters, BEGIN_MAX of those that have as many: how many runs such rules have, ascending. */
  lengths: ReadonlyMap<string, readonly number[]>;
  /** Bits of the beginnings, so that most places of a text are passed over without a string being made. */
  begins: Uint8Array;
};

/** Letters that rules are found by: of two, ordinary texts are full. */
const BEGIN_MAX = 3;

/** A word that was found; positions are UTF-16 units of the text, `end` is exclusive. */
export type Hit = { rule: Rule; start: number; end: number };

const REPEATED = /(.)\1+/gsu;

const squeeze = (spelling: string): string => spelling.replace(REPEATED, "$1");

/**
 * Rules that have the same letters and differ in doubled ones, the action or the match; what is beyond is
 * left out. Else lists made for it would make every text slow.
 */
const TWINS_MAX = 32;

/** Whether a word can be compared at all, and is no longer than words may be. */
export const isComparable = (word: string): boolean => {
  const spellings = spellingsOf(word);
  return spellings.length > 0 && spellings.every((spelling) => spelling.length <= WORD_LENGTH_MAX);
};

/** Bits for each beginning: one in sixteen is set, so as many letters of a text are looked up in vain. */
const BITS_EACH = 16;
const BYTES_MIN = 32;

const bitsOf = (begins: Iterable<string>): Uint8Array => {
  const all = [...begins];
  const bytes = Math.max(BYTES_MIN, 2 ** Math.ceil(Math.log2((all.length * BITS_EACH) / 8)));
  const bits = new Uint8Array(bytes);
  for (const begin of all) {
    const [first = 0, second = 0, third = 0] = Array.from(begin, (letter) => letter.codePointAt(0)!);
    const hash = hashOf(first, second, third);
    bits[(hash >>> 3) & (bytes - 1)]! |= 1 << (hash & 7);
  }
  return bits;
};

/** Of one to three letters, 0 for none. */
const hashOf = (first: number, second: number, third: number): number => {
  const mixed = Math.imul(first, 0x9e3779b1) ^ Math.imul(second, 0x85ebca6b) ^ Math.imul(third, 0xc2b2ae35);
  return (mixed ^ (mixed >>> 15)) >>> 0;
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
        const begin = letters.slice(0, BEGIN_MAX).join("");
        const known = lengths.get(begin);
        if (known) known.add(letters.length);
        else lengths.set(begin, new Set([letters.length]));
      }
    }
  return { version, words, rules, lengths: new Map(sortEach(lengths)), begins: bitsOf(lengths.keys()) };
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
export const findWords = (filter: WordFilter, lines: readonly Line[]): Found => {
  const found: Found = { hits: [], steps: 0 };
  if (filter.words > 0) for (const line of lines) findIn(filter, line, found);
  return found;
};

/** A reading as one text, the code points of its runs, and where each of them begins in it. */
export type Line = { runs: readonly Run[]; text: string; codes: Int32Array; offsets: Int32Array };

/** For `findWords`, which several filters are asked with. */
export const lineOf = (runs: readonly Run[]): Line => {
  // Zeros after the last run, so that two beyond each can be read.
  const codes = new Int32Array(runs.length + BEGIN_MAX);
  const offsets = new Int32Array(runs.length + 1);
  let text = "";
  for (let at = 0; at < runs.length; at += 1) {
    const { letter } = runs[at]!;
    codes[at] = letter.codePointAt(0)!;
    text += letter;
    offsets[at + 1] = text.length;
  }
  return { runs, text, codes, offsets };
};

/** Whether a rule may begin so; a few that none does pass too. */
const mayBegin = ({ begins }: WordFilter, first: number, second: number, third: number): boolean => {
  const hash = hashOf(first, second, third);
  return (begins[(hash >>> 3) & (begins.length - 1)]! & (1 << (hash & 7))) !== 0;
};

const findIn = (filter: WordFilter, line: Line, found: Found): void => {
  const { codes } = line;
  const count = line.runs.length;
  for (let from = 0; from < count; from += 1) {
    found.steps += 1;
    const first = codes[from]!;
    const second = codes[from + 1]!;
    const third = codes[from + 2]!;
    // Rules of two letters, of more, and of one.
    if (second !== 0 && mayBegin(filter, first, second, 0)) tryFrom(filter, line, [from, 2], found);
    if (third !== 0 && mayBegin(filter, first, second, third)) tryFrom(filter, line, [from, 3], found);
    if (mayBegin(filter, first, 0, 0)) tryFrom(filter, line, [from, 1], found);
  }
};

/** Tries all lengths of rules that begin as the text does here. */
const tryFrom = (
  filter: WordFilter,
  line: Line,
  [from, letters]: readonly [from: number, letters: number],
  found: Found,
): void => {
  const { runs, text, offsets } = line;
  for (const length of filter.lengths.get(text.slice(offsets[from], offsets[from + letters])) ?? []) {
    found.steps += 1;
    if (from + length > runs.length) break;
    findAt(filter, line, { from, upTo: from + length }, found);
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
