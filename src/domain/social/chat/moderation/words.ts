import type { ChannelSettings } from "../../../kernel/events/chat-views.ts";
import { BUILT_IN_WORDS } from "./built-in-words.ts";
import { readingsOf } from "./runs.ts";
import {
  findWords,
  type Hit,
  lineOf,
  type ListAction,
  NOTHING_FOUND,
  type WordFilter,
} from "./word-filter.ts";

/** Actions that a word can cause, strongest first. */
export type WordAction = Exclude<ListAction, "ALLOW">;

/** A matching word. Positions are UTF-16 units of the text; `end` is exclusive. */
export type WordMatch = { list: string; word: string; action: WordAction; start: number; end: number };

type Screened = { matches: WordMatch[]; steps: number };

/**
 * Stands for the word of a text that takes too many steps to be searched completely. No project's list can
 * have the name.
 */
const UNREAD = "@unread";

const STRONGEST_FIRST: readonly WordAction[] = ["BLOCK", "HOLD", "MASK"];

/**
 * Finds the words of a project's lists and of the built-in one in a text, except inside an allowed one.
 * `steps` is the work that it took, so that tests can check that it is linear.
 */
export const screenWords = (
  filter: WordFilter,
  profanity: ChannelSettings["profanity"],
  text: string,
): Screened => {
  const lines = readingsOf(text).map(lineOf);
  const own = findWords(filter, lines);
  const builtIn = profanity === "OFF" ? NOTHING_FOUND : findWords(BUILT_IN_WORDS, lines);
  const matches = matchesOf([...own.hits, ...builtIn.hits], profanity, text);
  const steps = own.steps + builtIn.steps;
  const unread = [...(own.isSpent ? filter.actions : []), ...(builtIn.isSpent ? [profanity] : [])];
  // An incomplete search must not let a text pass: it counts as a match of the strongest list.
  const action = STRONGEST_FIRST.find((one) => unread.includes(one));
  if (action) matches.push({ list: UNREAD, word: "", action, start: 0, end: text.length });
  return { matches, steps };
};

const matchesOf = (
  hits: readonly Hit[],
  profanity: ChannelSettings["profanity"],
  text: string,
): WordMatch[] => {
  if (hits.length === 0) return [];
  const matches: WordMatch[] = [];
  const reach = allowedReach(hits, text.length);
  for (const { rule, start, end } of hits) {
    const action = rule.action ?? (profanity as WordAction);
    if (action === "ALLOW" || reach[start]! >= end) continue;
    matches.push({ list: rule.list, word: rule.word, action, start, end });
  }
  return matches;
};

/** For each position of a text, how far the allowed words reach that begin there or before. */
const allowedReach = (hits: readonly Hit[], length: number): Uint32Array => {
  const reach = new Uint32Array(length + 1);
  for (const { rule, start, end } of hits)
    if (rule.action === "ALLOW") reach[start] = Math.max(reach[start]!, end);
  for (let at = 1; at < reach.length; at += 1) reach[at] = Math.max(reach[at]!, reach[at - 1]!);
  return reach;
};

/** Replaces each character of the matches by a star: the text keeps its length and positions. */
export const mask = (text: string, matches: readonly Pick<WordMatch, "start" | "end">[]): string => {
  if (matches.length === 0) return text;
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
