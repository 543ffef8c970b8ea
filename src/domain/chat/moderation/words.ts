import type { ChannelSettings } from "../views.ts";
import { BUILT_IN_WORDS } from "./built-in-words.ts";
import { readingsOf } from "./runs.ts";
import { findWords, type Hit, type ListAction, type WordFilter } from "./word-filter.ts";

/** What a word brings about, the strongest first. */
export type WordAction = Exclude<ListAction, "ALLOW">;

/** A word that counts. Positions are UTF-16 units of the text; `end` is exclusive. */
export type WordMatch = { list: string; word: string; action: WordAction; start: number; end: number };

type Screened = { matches: WordMatch[]; steps: number };

/**
 * The words of a project's lists and of the built-in one in a text, without those that are inside of an
 * allowed one. `steps` is the work that it took, for tests of that it is linear.
 */
export const screenWords = (
  filter: WordFilter,
  profanity: ChannelSettings["profanity"],
  text: string,
): Screened => {
  const readings = readingsOf(text);
  const own = findWords(filter, readings);
  const builtIn = profanity === "OFF" ? { hits: [], steps: 0 } : findWords(BUILT_IN_WORDS, readings);
  const hits = [...own.hits, ...builtIn.hits];
  const reach = allowedReach(hits, text.length);
  const matches: WordMatch[] = [];
  for (const { rule, start, end } of hits) {
    const action = rule.action ?? (profanity as WordAction);
    if (action === "ALLOW" || reach[start]! >= end) continue;
    matches.push({ list: rule.list, word: rule.word, action, start, end });
  }
  return { matches, steps: own.steps + builtIn.steps };
};

/** For each place of a text, how far the allowed words reach that begin there or before. */
const allowedReach = (hits: readonly Hit[], length: number): Uint32Array => {
  const reach = new Uint32Array(length + 1);
  for (const { rule, start, end } of hits)
    if (rule.action === "ALLOW") reach[start] = Math.max(reach[start]!, end);
  for (let at = 1; at < reach.length; at += 1) reach[at] = Math.max(reach[at]!, reach[at - 1]!);
  return reach;
};

/** A text with a star for each character of the matches: as long as before, and nothing moves. */
export const mask = (text: string, matches: readonly Pick<WordMatch, "start" | "end">[]): string => {
  const covered = new Int32Array(text.length + 1);
  for (const { start, end } of matches) {
    covered[start]! += 1;
    covered[end]! -= 1;
  }
  let masked = "";
  let depth = 0;
  let at = 0;
  for (const character of text) {
    for (let unit = 0; unit < character.length; unit += 1) depth += covered[at + unit]!;
    masked += depth > 0 ? "*" : character;
    at += character.length;
  }
  return masked;
};
