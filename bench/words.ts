// How fast words of a list are found in chat messages: the word filter beside a trie of whole words and the
// automaton of Aho and Corasick. See README.md.
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import {
  compileWords,
  findWords,
  type Line,
  lineOf,
  type WordFilter,
} from "../src/domain/social/chat/moderation/word-filter.ts";
import { readingsOf } from "../src/domain/social/chat/moderation/runs.ts";
import { createRandom } from "./support/rule-sets.ts";
import { rounded, spread, spreadText, table } from "./support/stats.ts";
import { automatonSearch, trieSearch, type WordSearch } from "./support/word-searches.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    json: { type: "string" },
  },
});
const ROUNDS = Number(options.rounds ?? (options.quick ? 3 : 7));
/** 500 words are a usual list, 250,000 the most that a project's lists may hold. */
const SIZES = options.quick ? [500, 20_000] : [500, 20_000, 250_000];
const MESSAGES = options.quick ? 500 : 2_000;
const MESSAGE_LENGTH = 120;
const SEED = 20_261_123;

/** Messages of ordinary English: the guides, without their code. */
const messages = (): Line[] => {
  const guides = globSync(join(import.meta.dirname, "../docs/**/*.md"));
  const text = guides.map((file) => readFileSync(file, "utf8").replaceAll(/```[^]*?```/g, "")).join(" ");
  const words = text.replaceAll(/[^A-Za-z ]+/g, " ").replaceAll(/\s+/g, " ");
  return Array.from({ length: MESSAGES }, (_, n) => {
    const from = (n * MESSAGE_LENGTH) % (words.length - MESSAGE_LENGTH);
    return lineOf(readingsOf(words.slice(from, from + MESSAGE_LENGTH))[0]!);
  });
};

const SYLLABLES = "ba be bi bo bu da de di do du fa fi ga go ka ki ko la le li lo ma me mi mo na ne no".split(
  " ",
);

/** Words that look like words, of four to ten letters. */
const makeWords = (count: number): string[] => {
  const random = createRandom(SEED);
  const words = new Set<string>();
  while (words.size < count) {
    const parts = 2 + Math.floor(random() * 4);
    words.add(
      Array.from({ length: parts }, () => SYLLABLES[Math.floor(random() * SYLLABLES.length)]!).join(""),
    );
  }
  return [...words];
};

type Contestant = WordSearch & { name: string; buildMs: number; heapBytes: number };

const heap = (): number => {
  globalThis.gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
};

const made = (name: string, make: () => WordSearch): Contestant => {
  const [before, startMs] = [heap(), performance.now()];
  const search = make();
  const buildMs = performance.now() - startMs;
  return { name, ...search, buildMs, heapBytes: heap() - before };
};

const searchOf = (filter: WordFilter): WordSearch => ({
  count: (line) => findWords(filter, [line]).hits.length,
});

const contestantsOf = (words: readonly string[]): Contestant[] => {
  const list = { list: "words", action: "MASK" as const, isStart: false, isEnd: false, words };
  return [
    made("filter", () => searchOf(compileWords("1", [list]))),
    made("trie", () => trieSearch(words)),
    made("Aho-Corasick", () => automatonSearch(words)),
  ];
};

const sampleNs = ({ count }: WordSearch, lines: readonly Line[], letters: number): number => {
  const startMs = performance.now();
  for (const line of lines) count(line);
  return ((performance.now() - startMs) * 1e6) / letters;
};

const lines = messages();
const letters = lines.reduce((sum, { runs }) => sum + runs.length, 0);
const results: object[] = [];
const rows: string[][] = [];
for (const size of SIZES) {
  const contestants = contestantsOf(makeWords(size));
  const [filter] = contestants;
  const samples = new Map(contestants.map(({ name }) => [name, [] as number[]]));
  // A first pass warms up. Only the filter hides shorter words of a place behind longer ones.
  for (const one of contestants) sampleNs(one, lines, letters);
  const total = (one: WordSearch): number => lines.reduce((sum, line) => sum + one.count(line), 0);
  assert.equal(total(contestants[1]!), total(contestants[2]!));
  assert.ok(total(filter!) <= total(contestants[1]!));
  for (let round = 0; round < ROUNDS; round++)
    for (const one of contestants) samples.get(one.name)!.push(sampleNs(one, lines, letters));
  const base = samples.get("filter")!;
  for (const { name, buildMs, heapBytes } of contestants) {
    const own = samples.get(name)!;
    const ratio = spread(own.map((ns, n) => ns / base[n]!));
    rows.push([
      size.toLocaleString("en-US"),
      name,
      spreadText(spread(own)),
      spreadText(ratio),
      rounded(buildMs),
      rounded(heapBytes / size),
    ]);
    results.push({ size, name, nsPerLetter: own, buildMs, heapBytes });
  }
}
console.log(
  table(["words", "", "ns a letter", "of the filter's", "building, ms", "bytes of memory a word"], rows),
);
if (options.json !== undefined) await writeFile(options.json, `${JSON.stringify(results, null, 2)}\n`);
