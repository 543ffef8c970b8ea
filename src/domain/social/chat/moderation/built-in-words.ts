import { englishDataset, type ParsedPattern, SyntaxKind } from "obscenity";
import { compileWords } from "./compile-words.ts";
import type { Listed } from "./word-filter.ts";

/** Name of the built-in list in flags and verdicts; no project's list can have it. */
export const BUILT_IN = "@en";

/** Words of the data set that are ordinary in English or related languages. */
const LEFT_OUT: ReadonlySet<string> = new Set(["negro", "dyke", "hooker", "cockp"]);

/** Ordinary words and names that contain a listed one, besides those that the data set knows. */
const INNOCENT = [
  "dickinson",
  "dickin",
  "penistone",
  "peniston",
  "grapeseed",
  "rapeseed",
  "rapids",
  "retardant",
  "moby dick",
  "dick van",
  "cocktail",
  "assassin",
  "scunthorpe",
  "incestry",
  "jizzakh",
  "pornic",
];

/** A wildcard of the data set stands for a vowel that is omitted or starred. */
const VOWELS = ["a", "e", "i", "o", "u"];

const textOf = (chars: readonly number[]): string => String.fromCodePoint(...chars);

/** Returns every word that a pattern stands for; a pattern has four optional parts at most. */
const wordsOf = ({ nodes }: ParsedPattern): string[] => {
  let words = [""];
  for (const node of nodes) {
    const part = node.kind === SyntaxKind.Optional ? node.childNode : node;
    const parts = part.kind === SyntaxKind.Literal ? [textOf(part.chars)] : VOWELS;
    const ways = node.kind === SyntaxKind.Optional ? ["", ...parts] : parts;
    words = words.flatMap((word) => ways.map((way) => word + way));
  }
  return words;
};

const data = englishDataset.build();

const terms: (Listed & { words: string[] })[] = data.blacklistedTerms.map(({ pattern }) => ({
  list: BUILT_IN,
  action: undefined,
  isStart: pattern.requireWordBoundaryAtStart,
  isEnd: pattern.requireWordBoundaryAtEnd,
  words: wordsOf(pattern).filter((word) => !LEFT_OUT.has(word)),
}));

const innocent: Listed & { words: string[] } = {
  list: BUILT_IN,
  action: "ALLOW",
  isStart: false,
  isEnd: false,
  words: [...(data.whitelistedTerms ?? []), ...INNOCENT],
};

/**
 * The list of every project: the English data set of `obscenity`, with its exceptions. Its action is the
 * channel's `profanity`. There is none for other languages: the lists that libraries bring are machine
 * translations, which contain words like `hour` and `Korean`.
 */
export const BUILT_IN_WORDS = compileWords(BUILT_IN, [...terms, innocent]);
