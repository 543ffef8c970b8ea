import { atOnce, type Steps } from "../../../kernel/slices.ts";
import { GAP, REPEATS_SEEN, type Run, spellingsOf } from "./runs.ts";

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
type Rule = Listed & { word: string; spelling: string };

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
const BEGIN_MAX = 3;

const LETTERS = 2 ** 21;
/** Returns a node and a letter's code point as one number. */
const edgeOf = (node: number, letter: number): number => node * LETTERS + letter;

/** A match; positions are UTF-16 units of the text, `end` is exclusive. */
export type Hit = { rule: Rule; start: number; end: number };

/**
 * Maximum steps for searching one text, for the lists of a project and for the built-in one each: at most
 * some 40 ms. An ordinary text takes a few thousand.
 */
export const SCREEN_STEPS_MAX = 1_000_000;

/** The matches, and the number of steps. */
type Found = {
  /** Of several words of one list that begin at the same position the longest. */
  hits: Hit[];
  steps: number;
  /** Whether the text would have taken more than SCREEN_STEPS_MAX, so that there may be more matches. */
  isSpent: boolean;
};

export const NOTHING_FOUND: Found = { hits: [], steps: 0, isSpent: false };

/** State of a search. */
type Search = { filter: WordFilter; line: Line; hits: Hit[]; spent: { steps: number } };

class Spent extends Error {}

/** A step is one comparison, or this many characters of text. */
const TEXT_PER_STEP = 32;

const charge = ({ spent }: Search, steps: number): void => {
  spent.steps += steps;
  if (spent.steps > SCREEN_STEPS_MAX) throw new Spent();
};

/**
 * Finds the words of a filter in a text, in any reading of it. A shorter word of the same list and position
 * is omitted: whatever allows the longer one allows it too, and it causes nothing else.
 */
export const findWords = (filter: WordFilter, lines: readonly Line[]): Found => {
  if (filter.words === 0) return NOTHING_FOUND;
  const hits: Hit[] = [];
  const spent = { steps: 0 };
  try {
    for (const line of lines) findIn({ filter, line, hits, spent });
  } catch (error) {
    if (!(error instanceof Spent)) throw error;
  }
  return { hits, steps: spent.steps, isSpent: spent.steps > SCREEN_STEPS_MAX };
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
  const { filter, line } = search;
  const { codes } = line;
  const count = line.runs.length;
  const nodes = new Int32Array(BEGIN_MAX);
  for (let from = 0; from < count; from += 1) {
    charge(search, 1);
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
  const { filter, line } = search;
  for (const length of filter.lengths.get(node) ?? []) {
    charge(search, 1 + Math.floor(length / TEXT_PER_STEP));
    if (from + length <= line.runs.length) findAt(search, { from, upTo: from + length }, before);
  }
};

/** Runs of a line; `upTo` is exclusive. */
type Stretch = { from: number; upTo: number };

/** Number of a rule's letters compared per step. */
const LETTERS_PER_STEP = 4;

const findAt = (search: Search, stretch: Stretch, before: number): void => {
  const { filter, line, hits } = search;
  const { runs, text, offsets } = line;
  const { from, upTo } = stretch;
  for (const rule of filter.rules.get(text.slice(offsets[from], offsets[upTo])) ?? []) {
    charge(search, 1);
    if (!isBounded(rule, runs, stretch) || hasLonger(rule, hits, before)) continue;
    // Scores, times, prices and versions are numbers, and no words in disguise.
    if (!isMeant(runs, stretch)) continue;
    charge(search, Math.ceil((upTo - from) / LETTERS_PER_STEP));
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

/** One compiled list, which is combined with others to a filter. */
export type CompiledList = {
  words: number;
  /** Upper estimate of its memory. */
  bytes: number;
  action: ListAction | undefined;
  /** By their letters without repeats. */
  rules: ReadonlyMap<string, readonly Rule[]>;
  /** Numbers of runs that rules have, by their first letters. */
  lengths: ReadonlyMap<string, ReadonlySet<number>>;
};

const REPEATED = /(.)\1+/gsu;

/** Returns a word without repeats of a letter. */
export const squeeze = (spelling: string): string => spelling.replace(REPEATED, "$1");

/**
 * Maximum number of rules with the same letters that differ in doubled ones, the action or the match.
 * Otherwise lists crafted for it would make every text slow. A single list with more is refused; excess ones
 * of several lists together are dropped.
 */
export const TWINS_MAX = 32;

/**
 * Creates a check that is called for each word of a list, and reports whether it has too many twins by then.
 */
export const createTwinCheck = (action: ListAction): ((word: string) => boolean) => {
  const spellings = new Map<string, Set<string>>();
  return (word) =>
    spellingsOf(word, action === "ALLOW").some((spelling) => {
      const key = squeeze(spelling);
      const twins = spellings.get(key) ?? new Set();
      spellings.set(key, twins.add(spelling));
      return twins.size > TWINS_MAX;
    });
};

/** Whether a word can be compared at all, and is within the maximum length. */
export const isComparable = (word: string): boolean => {
  const spellings = spellingsOf(word);
  return spellings.length > 0 && spellings.every((spelling) => spelling.length <= WORD_LENGTH_MAX);
};

const isSame = (one: Rule, other: Rule): boolean =>
  one.spelling === other.spelling &&
  one.action === other.action &&
  one.isStart === other.isStart &&
  one.isEnd === other.isEnd;

/** Adds to the rules of the same letters. */
const addTwin = (twins: Rule[], rule: Rule): void => {
  if (twins.length < TWINS_MAX && !twins.some((twin) => isSame(twin, rule))) twins.push(rule);
};

/**
 * Memory of a rule and a beginning in a compiled list, and additional memory in a filter, in bytes at most.
 */
const RULE_BYTES = { list: 270, filter: 80 };
const BEGIN_BYTES = { list: 350, filter: 110 };

/** Memory of the texts of a rule, where `key` may be its spelling itself; bytes at most. */
const textBytes = ({ word, spelling }: Rule, key: string): number =>
  2 * (word.length + spelling.length + (key === spelling ? 0 : key.length));

/** Compiles one list, with a pause after each word; words that cannot be compared are omitted. */
export function* compileList(listed: Listed & { words: readonly string[] }): Steps<CompiledList> {
  const { words, ...common } = listed;
  const rules = new Map<string, Rule[]>();
  const lengths = new Map<string, Set<number>>();
  let bytes = 0;
  for (const word of words) {
    for (const spelling of spellingsOf(word, common.action === "ALLOW")) {
      if (spelling.length > WORD_LENGTH_MAX) continue;
      const key = squeeze(spelling);
      const letters = [...key];
      const twins = rules.get(key);
      const rule = { ...common, word, spelling };
      bytes += RULE_BYTES.list + textBytes(rule, key);
      if (twins) addTwin(twins, rule);
      else rules.set(key, [rule]);
      const begin = letters.slice(0, BEGIN_MAX).join("");
      const known = lengths.get(begin);
      if (known) known.add(letters.length);
      else lengths.set(begin, new Set([letters.length]));
    }
    yield;
  }
  bytes += lengths.size * BEGIN_BYTES.list;
  return { words: words.length, bytes, action: common.action, rules, lengths };
}

/** Combines the rules of all lists by their letters, without changing the lists. */
function* joinRules(lists: readonly CompiledList[]): Steps<Map<string, readonly Rule[]>> {
  const joined = new Map<string, readonly Rule[]>();
  for (const { rules } of lists)
    for (const [key, twins] of rules) {
      const known = joined.get(key);
      const both = [...(known ?? [])];
      if (known) for (const rule of twins) addTwin(both, rule);
      joined.set(key, known ? both : twins);
      yield;
    }
  return joined;
}

function* joinLengths(lists: readonly CompiledList[]): Steps<Map<string, ReadonlySet<number>>> {
  const joined = new Map<string, ReadonlySet<number>>();
  for (const { lengths } of lists)
    for (const [begin, set] of lengths) {
      const known = joined.get(begin);
      joined.set(begin, known ? new Set([...known, ...set]) : set);
      yield;
    }
  return joined;
}

/** Returns a trie of the beginnings of rules, and their lengths by its nodes. */
function* trieOf(
  lengths: ReadonlyMap<string, ReadonlySet<number>>,
): Steps<Pick<WordFilter, "edges" | "lengths">> {
  const edges = new Map<number, number>();
  const byNode = new Map<number, readonly number[]>();
  for (const [begin, set] of lengths) {
    let node = 0;
    for (const letter of begin) {
      const edge = edgeOf(node, letter.codePointAt(0)!);
      node = edges.get(edge) ?? edges.size + 1;
      edges.set(edge, node);
    }
    byNode.set(
      node,
      [...set].toSorted((one, other) => other - one),
    );
    yield;
  }
  return { edges, lengths: byNode };
}

/** Combines compiled lists to a filter, with a pause after each word. */
export function* joinLists(version: string, lists: readonly CompiledList[]): Steps<WordFilter> {
  const rules = yield* joinRules(lists);
  const lengths = yield* joinLengths(lists);
  const own = rules.size * RULE_BYTES.filter + lengths.size * BEGIN_BYTES.filter;
  return {
    version,
    words: lists.reduce((sum, { words }) => sum + words, 0),
    bytes: lists.reduce((sum, { bytes }) => sum + bytes, own),
    actions: new Set(lists.map(({ action }) => action)),
    rules,
    ...(yield* trieOf(lengths)),
  };
}

/** Compiles a few words at once. */
export const compileWords = (
  version: string,
  lists: Iterable<Listed & { words: readonly string[] }>,
): WordFilter => {
  const compiled = Array.from(lists, (list) => atOnce(compileList(list)));
  return atOnce(joinLists(version, compiled));
};

/** Filter of a project without lists of its own. */
export const NO_LISTS: WordFilter = compileWords("", []);
