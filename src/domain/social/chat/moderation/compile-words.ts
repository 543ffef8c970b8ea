import { atOnce, type Steps } from "../../../kernel/slices.ts";
import { spellingsOf } from "./runs.ts";
import {
  BEGIN_MAX,
  edgeOf,
  type ListAction,
  type Listed,
  type Rule,
  WORD_LENGTH_MAX,
  type WordFilter,
} from "./word-filter.ts";

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

const squeeze = (spelling: string): string => spelling.replace(REPEATED, "$1");

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
