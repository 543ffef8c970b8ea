import { StepBudget, StepsExceeded, TEXT_PER_STEP } from "../../../kernel/step-budget.ts";
import { GAP } from "./letters.ts";
import { REPEATS_SEEN, type Run } from "./runs.ts";

export const LIST_ACTIONS = ["MASK", "BLOCK", "HOLD", "ALLOW"] as const;
export type ListAction = (typeof LIST_ACTIONS)[number];
export const LIST_MATCHES = ["WORD", "SUBSTRING"] as const;
export type ListMatch = (typeof LIST_MATCHES)[number];

/** Maximum length of a word, however it is written; UTF-16 units. */
export const WORD_LENGTH_MAX = 64;

/** Properties shared by the words of a list. `action` is undefined where the channel decides. */
export type Listed = {
  list: string;
  action: ListAction | undefined;
  /** Whether the match must begin, and end, at a word boundary. */
  isStart: boolean;
  isEnd: boolean;
};

/** One spelling of one word. */
export type Rule = Listed & { word: string; spelling: string };

/**
 * Compiled word lists: rules by their letters without repeats, and a trie of the first letters of rules.
 * Searching a text takes a step for each letter and each length of a word that begins like it, 64 at most,
 * however many words there are. A trie of whole words would need a node for each letter of 250,000 words.
 */
export type WordFilter = {
  version: string;
  words: number;
  /** Upper estimate of its memory including that of its lists. */
  bytes: number;
  /** Actions of its lists; undefined stands for that of the channel. */
  actions: ReadonlySet<ListAction | undefined>;
  rules: ReadonlyMap<string, readonly Rule[]>;
  /** A trie of the first BEGIN_MAX letters: `edgeOf` a node and a letter to the next node; 0 is the root. */
  edges: ReadonlyMap<number, number>;
  /** Numbers of runs of rules, descending, by the node of their first letters (or all, if they are fewer). */
  lengths: ReadonlyMap<number, readonly number[]>;
};

/** Number of letters by which rules are found: ordinary texts are full of matches for two. */
export const BEGIN_MAX = 3;

const LETTERS = 2 ** 21;
/** Returns a node and a letter's code point as one number. */
export const edgeOf = (node: number, letter: number): number => node * LETTERS + letter;

/** A match; positions are UTF-16 units of the text, `end` is exclusive. */
export type Hit = { rule: Rule; start: number; end: number };

/**
 * Maximum steps for searching one text, for the lists of a project and for the built-in one each: at most
 * some 40 ms. An ordinary text takes a few thousand.
 */
export const SCREEN_STEPS_MAX = 1_000_000;

/** The matches, and the number of steps. */
export type Found = {
  /** Of several words of one list that begin at the same position the longest. */
  hits: Hit[];
  steps: number;
  /** Whether the text would have taken more than SCREEN_STEPS_MAX, so that there may be more matches. */
  isSpent: boolean;
};

export const NOTHING_FOUND: Found = { hits: [], steps: 0, isSpent: false };

/** State of a search. */
type Search = { filter: WordFilter; line: Line; hits: Hit[]; budget: StepBudget };

/**
 * Finds the words of a filter in a text, in any reading of it. A shorter word of the same list and position
 * is omitted: whatever allows the longer one allows it too, and it causes nothing else.
 */
export const findWords = (filter: WordFilter, lines: readonly Line[]): Found => {
  if (filter.words === 0) return NOTHING_FOUND;
  const hits: Hit[] = [];
  const budget = new StepBudget(SCREEN_STEPS_MAX);
  try {
    for (const line of lines) findIn({ filter, line, hits, budget });
  } catch (error) {
    if (!(error instanceof StepsExceeded)) throw error;
  }
  return { hits, steps: budget.spent, isSpent: budget.isSpent };
};

/** A reading as one text, the code points of its runs, and the offset of each run. */
export type Line = { runs: readonly Run[]; text: string; codes: Int32Array; offsets: Int32Array };

/** For `findWords`, which is called with several filters. */
export const lineOf = (runs: readonly Run[]): Line => {
  // Zeros after the last run, so that the first letters of a rule can be read from each.
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

const findIn = (search: Search): void => {
  const { filter, line, budget } = search;
  const { codes } = line;
  const count = line.runs.length;
  const nodes = new Int32Array(BEGIN_MAX);
  for (let from = 0; from < count; from += 1) {
    budget.charge(1);
    let depth = 0;
    let node: number | undefined = 0;
    while (depth < BEGIN_MAX && (node = filter.edges.get(edgeOf(node, codes[from + depth]!))) !== undefined)
      nodes[depth++] = node;
    const before = search.hits.length;
    // The longest rules first.
    while (depth > 0) tryFrom(search, { from, node: nodes[--depth]!, before });
  }
};

/** A position where rules begin like the path to `node`; `before` is the number of earlier matches. */
type Start = { from: number; node: number; before: number };

/** Tries all lengths of rules that begin like the text at this position. */
const tryFrom = (search: Search, { from, node, before }: Start): void => {
  const { filter, line, budget } = search;
  for (const length of filter.lengths.get(node) ?? []) {
    budget.charge(1 + Math.floor(length / TEXT_PER_STEP));
    if (from + length <= line.runs.length) findAt(search, { from, upTo: from + length }, before);
  }
};

/** Runs of a line; `upTo` is exclusive. */
type Stretch = { from: number; upTo: number };

/** Number of a rule's letters compared per step. */
const LETTERS_PER_STEP = 4;

const findAt = ({ filter, line, hits, budget }: Search, stretch: Stretch, before: number): void => {
  const { runs, text, offsets } = line;
  const { from, upTo } = stretch;
  for (const rule of filter.rules.get(text.slice(offsets[from], offsets[upTo])) ?? []) {
    budget.charge(1);
    if (!isBounded(rule, runs, stretch) || hasLonger(rule, hits, before)) continue;
    // Scores, times, prices and versions are numbers, and no words in disguise.
    if (!isMeant(runs, stretch)) continue;
    budget.charge(Math.ceil((upTo - from) / LETTERS_PER_STEP));
    if (isDoubled(rule, runs, stretch))
      hits.push({ rule, start: runs[from]!.start, end: runs[upTo - 1]!.end });
  }
};

/** Whether a word of the same list and action was found at this position, where the longest come first. */
const hasLonger = ({ list, action }: Rule, hits: readonly Hit[], before: number): boolean => {
  for (let at = before; at < hits.length; at += 1) {
    const { rule } = hits[at]!;
    if (rule.list === list && rule.action === action) return true;
  }
  return false;
};

const LETTER = /[\p{L}\p{N}]/u;

/** Whether a word continues from one run to the other, so that none ends between them. */
const isJoined = (inside: Run, beside: Run | undefined): boolean =>
  beside !== undefined && beside.isWordy && LETTER.test(inside.letter);

const isBounded = (rule: Rule, runs: readonly Run[], { from, upTo }: Stretch): boolean =>
  !(rule.isStart && isJoined(runs[from]!, runs[from - 1])) &&
  !(rule.isEnd && isJoined(runs[upTo - 1]!, runs[upTo]));

const isMeant = (runs: readonly Run[], { from, upTo }: Stretch): boolean => {
  for (let at = from; at < upTo; at += 1) if (runs[at]!.isMeant) return true;
  return false;
};

/** Whether letters occur as often as in the rule, or so often that the number is meaningless. */
const isDoubled = (rule: Rule, runs: readonly Run[], { from, upTo }: Stretch): boolean => {
  let at = 0;
  for (let index = from; index < upTo; index += 1) {
    const { letter, count } = runs[index]!;
    let wanted = 0;
    for (; rule.spelling.startsWith(letter, at); at += letter.length) wanted += 1;
    if (count === wanted || count > REPEATS_SEEN || letter === GAP) continue;
    // At an open edge the remaining letters do not belong to the word.
    if (!isOpenAt(rule, index - from, upTo - 1 - index) || count < wanted) return false;
  }
  return true;
};

const isOpenAt = (rule: Rule, before: number, after: number): boolean =>
  (before === 0 && !rule.isStart) || (after === 0 && !rule.isEnd);
