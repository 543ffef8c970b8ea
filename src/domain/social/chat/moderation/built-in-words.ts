import { englishDataset, type ParsedPattern, SyntaxKind } from "obscenity";
import { compileWords } from "./compile-words.ts";
import type { Listed } from "./word-filter.ts";

/** Name of the built-in list in flags and verdicts; no project's list can have it. */
export const BUILT_IN = "@en";

/** Words of the data set that are ordinary in English or related languages: `Abo` is a subscription. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  "negro",
  "dyke",
  "hooker",
  "cockp",
  "abo",
  "abos",
  "gasm",
  "bich",
]);

/** Ordinary words and names that contain a listed one, besides those that the data set knows. */
const INNOCENT = [
  "rapids",
  "retardant",
  "moby dick",
  "dick van",
  "tit for tat",
  "tit 4 tat",
  "en retard",
  "du retard",
  "un retard",
  "le retard",
  "incestry",
  "mishit",
  "niggard",
  "pussycat",
  "pussyfoot",
  "pussy willow",
];

/**
 * Words with which many harmless ones begin (`assez`, `Semenov`, `nggak`), or that many contain: they count as
 * whole words only, alone and with these endings.
 */
const WHOLE: Readonly<Record<string, string>> = {
  anal: "ly",
  anus: "es",
  arse: "s d hole holes",
  ass: "es ed hat hats hole holes wipe wipes face faces head heads clown clowns bag bags licker kisser fucker",
  bastard: "s ly",
  bestiality: "",
  beastiality: "",
  bich: "",
  boob: "s ie ies job",
  boonga: "s",
  chink: "s y ie ies",
  cock: "s sucker suckers sucking suck",
  cocks: "",
  cuck: "s ed ing old olds",
  cum: "s med ming shot shots slut sluts bag dump dumpster guzzler",
  cunt: "s y ing ish face faces hole",
  dick: "s ed ing ish less head heads face faces wad wads bag bags pic pics sucker suckers sucking",
  fack: "s ed er ers ing in",
  fag: "s got gots gy got's boy boys",
  feck: "s ed er ers ing in",
  felch: "ed er es ing",
  fick: "s en er",
  fock: "s ed er ers ing in",
  fuk: "s ed er ers ing in off you u face",
  incest: "s uous",
  jizz: "ed ing",
  kike: "s",
  ngga: "s",
  ngger: "s",
  orgy: "",
  orgies: "",
  peenis: "es",
  penis: "es",
  piss: "ed er ers es ing y off head heads",
  porn: "o os y star stars hub site sites ography ographic",
  rape: "d s y",
  retard: "s ed",
  semen: "s",
  shit:
    "s ty tier tiest ted ter ters ting tin head heads face faces hole holes bag bags show stain storm load less " +
    "post posts posting posted post er",
  slut: "s ty",
  titt: "y ies ie",
  turd: "s face",
  twat: "s ted ty face head",
  vagina: "s",
  wank: "s ed er ers ing y stain",
};

const BEFORE_ASS = "bad bitch broke dumb fat hard jack kick kiss lame lazy punk smart stupid".split(" ");

const wholeWords = [
  ...Object.entries(WHOLE).flatMap(([stem, endings]) => ["", ...endings.split(" ")].map((end) => stem + end)),
  ...BEFORE_ASS.flatMap((before) => [`${before}ass`, `${before}asses`]),
];

/** Whether a word of the data set is one of those, or begins elsewhere in a word than they do. */
const isWholeOnly = (word: string): boolean => {
  const squeezed = word.replace(/(.)\1+/gu, "$1");
  return (
    /^.?anal$/.test(word) || Object.keys(WHOLE).some((stem) => stem.replace(/(.)\1+/gu, "$1") === squeezed)
  );
};

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
  words: wordsOf(pattern).filter(
    // What ends like one of the words (`bullshit`) is no harmless word.
    (word) => !LEFT_OUT.has(word) && (pattern.requireWordBoundaryAtEnd || !isWholeOnly(word)),
  ),
}));

const whole = { list: BUILT_IN, action: undefined, isStart: true, isEnd: true, words: wholeWords };

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
export const BUILT_IN_WORDS = compileWords(BUILT_IN, [...terms, whole, innocent]);
