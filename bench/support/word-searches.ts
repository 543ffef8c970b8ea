import type { Line } from "../../src/domain/social/chat/moderation/word-filter.ts";

/** A set of words, prepared for finding all of them that begin at any position of a text. */
export type WordSearch = {
  /** Returns how many words there are in the text, at all positions. */
  count(line: Line): number;
};

/** Node and letter in one number: letters have 21 bits. */
const LETTERS = 2 ** 21;
const edge = (node: number, letter: number): number => node * LETTERS + letter;

type Trie = { edges: Map<number, number>; ends: Uint8Array; size: number };

const lettersOf = (word: string): number[] => Array.from(word, (letter) => letter.codePointAt(0)!);

const trieOf = (words: Iterable<string>): Trie => {
  const edges = new Map<number, number>();
  const ends: number[] = [];
  let size = 1;
  for (const word of words) {
    let node = 0;
    for (const letter of lettersOf(word)) {
      const known = edges.get(edge(node, letter));
      if (known === undefined) edges.set(edge(node, letter), size);
      node = known ?? size++;
    }
    ends.push(node);
  }
  const isEnd = new Uint8Array(size);
  for (const node of ends) isEnd[node] = 1;
  return { edges, ends: isEnd, size };
};

/** Walks a trie from every position of the text. */
export const trieSearch = (words: Iterable<string>): WordSearch => {
  const { edges, ends } = trieOf(words);
  return {
    count: ({ codes, runs: { length } }) => {
      let found = 0;
      for (let from = 0; from < length; from++) {
        let node: number | undefined = 0;
        for (let at = from; at < length; at++) {
          node = edges.get(edge(node, codes[at]!));
          if (node === undefined) break;
          found += ends[node]!;
        }
      }
      return found;
    },
  };
};

type Automaton = Pick<Trie, "edges"> & {
  /** Node of the longest proper suffix, by node. */
  fails: Int32Array;
  /** Number of words that end at a node, suffixes included. */
  counts: Int32Array;
};

/** Follows suffixes of a node until one goes on with the letter. */
const step = ({ edges, fails }: Omit<Automaton, "counts">, node: number, letter: number): number => {
  let at = node;
  let next = edges.get(edge(at, letter));
  while (next === undefined && at !== 0) {
    at = fails[at]!;
    next = edges.get(edge(at, letter));
  }
  return next ?? 0;
};

const automatonOf = ({ edges, ends, size }: Trie): Automaton => {
  const fails = new Int32Array(size);
  const counts = Int32Array.from(ends);
  const children = Map.groupBy(edges, ([key]) => Math.floor(key / LETTERS));
  let level = [0];
  while (level.length > 0) {
    const next: number[] = [];
    for (const node of level)
      for (const [key, child] of children.get(node) ?? []) {
        const fail = node === 0 ? 0 : step({ edges, fails }, fails[node]!, key % LETTERS);
        fails[child] = fail;
        counts[child]! += counts[fail]!;
        next.push(child);
      }
    level = next;
  }
  return { edges, fails, counts };
};

/**
 * The automaton of Aho and Corasick (Efficient string matching, CACM 18:6, 1975): one pass over the text,
 * whatever the words.
 */
export const automatonSearch = (words: Iterable<string>): WordSearch => {
  const automaton = automatonOf(trieOf(words));
  return {
    count: ({ codes, runs: { length } }) => {
      let found = 0;
      let node = 0;
      for (let at = 0; at < length; at++) {
        node = step(automaton, node, codes[at]!);
        found += automaton.counts[node]!;
      }
      return found;
    },
  };
};
