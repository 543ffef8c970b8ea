import assert from "node:assert/strict";
import {
  compileList,
  joinLists,
  WORD_LENGTH_MAX,
} from "../../src/domain/social/chat/moderation/word-filter.ts";
import { LIST_WORDS_MAX } from "../../src/domain/social/chat/moderation/show-sanction.ts";
import { atOnce } from "../../src/domain/kernel/slices.ts";
import { memoryKept } from "../support/memory.ts";

const LISTS = 2;

/** Three letters from `first` on that no other word of a list has in this order. */
const mark = (i: number, first: number): string =>
  String.fromCharCode(...[i % 26, Math.floor(i / 26) % 26, Math.floor(i / 676)].map((one) => first + one));
const filled = (start: string, letters: string): string =>
  (start + letters.repeat(WORD_LENGTH_MAX)).slice(0, WORD_LENGTH_MAX);

const WORDS: Readonly<Record<string, (i: number) => string>> = {
  "a few letters": (i) => mark(i, 97),
  "many letters": (i) => filled(mark(i, 97), "abcdefghij"),
  "many letters that stand twice": (i) => filled(mark(i, 97), "aabbccdd"),
  "digits that may be letters": (i) => filled(mark(i, 97), "a1b2c3d4e5"),
  "letters of two bytes": (i) => filled(mark(i, 0x10d0), "\u10d0\u10d1\u10d2\u10d3"),
  "one sign of its own": (i) => String.fromCodePoint(0x4e00 + i),
  pictures: (i) => filled(String.fromCodePoint(0x1f300 + (i % 100), 0x1f400 + Math.floor(i / 100)), "🍆🍇"),
  "the same beginning": (i) => `word${mark(i, 97)}`,
};

describe("the memory of compiled word lists", () => {
  const heapBytes = (): number => memoryKept().heapUsed;

  const measure = (json: string) => {
    const compile = () => {
      const words = JSON.parse(json) as string[];
      return atOnce(compileList({ list: "a", action: "BLOCK", isStart: true, isEnd: true, words }));
    };
    const first = compile();
    const before = heapBytes();
    const lists = Array.from({ length: LISTS }, compile);
    const compiled = heapBytes();
    const filters = lists.map((list) => atOnce(joinLists("v", [list])));
    const joined = heapBytes();
    assert.equal(filters[0]!.words, first.words);
    return {
      list: { bytes: first.bytes, measured: (compiled - before) / lists.length },
      filter: { bytes: filters[0]!.bytes, measured: (joined - before) / filters.length },
    };
  };

  for (const [kind, wordOf] of Object.entries(WORDS))
    it(`is no more than what they count for, and half of it at least: ${kind}`, () => {
      const words = Array.from({ length: LIST_WORDS_MAX }, (_, i) => wordOf(i));
      const { list, filter } = measure(JSON.stringify(words));
      for (const { bytes, measured } of [list, filter])
        assert.ok(measured <= bytes && bytes <= 2 * measured, `${measured} bytes count for ${bytes}`);
    });
});
