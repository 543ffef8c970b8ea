import { domainToASCII } from "node:url";
import { englishDataset, type ParsedPattern, SyntaxKind } from "obscenity";
import { parse } from "tldts";
import type { ChannelSettings } from "../../../kernel/events/social-views.ts";
import { readingsOf } from "./runs.ts";
import {
  compileWords,
  findWords,
  type Hit,
  lineOf,
  type ListAction,
  type Listed,
  NOTHING_FOUND,
  squeeze,
  type WordFilter,
} from "./word-filter.ts";

/**
 * Top-level domains that are words too, so that `polka dot me` is no link: a spelled-out dot only counts
 * before others.
 */
const ORDINARY_ENDS: ReadonlySet<string> = new Set(
  "am as at be by do for go he hi how id im in is it la me mo mu my no now of on one or pm red so to us we"
    .concat(" here best cool cash fun game games day live love life like work world you guru run show blue")
    .split(" "),
);

const UNSEEN = /[\p{Default_Ignorable_Code_Point}\p{Cf}]/gu;
/** `(dot)`, `[.]`, `{dot}`; the ideographic full stops. */
const DOT_IN_BRACKETS = / ?[([{](?:dot|punkt|punto|\.)[)\]}] ?/gu;
const OTHER_DOTS = /[\u3002\uff61\u2024]/gu;
/** Between two words with one space each. */
const SPELLED_DOT = / dot (\p{L}{2,24})(?![\p{L}\p{N}])/gu;
const SCHEME = /^(?:hxxps?|h\*\*ps?|https?|ftps?|wss?):\/{1,2}|^[a-z][a-z0-9+-]{1,15}:\/\//u;
/** Separates hosts from one another and from the surrounding text. */
const NO_HOST = /[^\p{L}\p{N}\p{M}.\-_]+/u;
const EDGE: ReadonlySet<string> = new Set(".-_");

/** A link in a text: its host's registrable domain, null for an IP address or an unknown one. */
type Link = { host: string; domain: string | null };

/** Private suffixes count, so that allowing `ada.github.io` does not allow everybody's. */
const SUFFIXES = { allowPrivateDomains: true } as const;

const open = (text: string): string =>
  text
    .normalize("NFKC")
    .toLowerCase()
    .replaceAll(UNSEEN, "")
    .replaceAll(OTHER_DOTS, ".")
    .replaceAll(DOT_IN_BRACKETS, ".")
    .replaceAll(SPELLED_DOT, (whole, end: string) => (ORDINARY_ENDS.has(end) ? whole : `.${end}`));

/** Returns the registrable domain of a host, also of one that is a suffix itself, such as `github.io`. */
const domainOf = (host: string): string | null => {
  const found = parse(host, SUFFIXES);
  return found.domain ?? (found.isPrivate === true ? host : null);
};

/** Whether a name without a scheme is meant as a host. */
const isHost = (name: string): boolean => {
  if (!name.includes(".")) return false;
  const { isIcann, isPrivate, domain } = parse(name, SUFFIXES);
  return (isIcann === true || isPrivate === true) && domain !== null;
};

/** Returns the links in text between two spaces. */
const linksOf = (chunk: string): Link[] => {
  const links: Link[] = [];
  // Browsers treat a backslash as a slash.
  for (const part of chunk.replaceAll("\\", "/").split(/(?=[a-z][a-z0-9+*-]{1,15}:\/)/u)) {
    const scheme = SCHEME.exec(part)?.[0];
    const [before, ...path] = part.slice(scheme?.length ?? 0).split("/");
    const hosts = namesIn(before!).filter((name) => scheme !== undefined || isHost(name));
    if (scheme !== undefined && hosts.length === 0) hosts.push("");
    for (const piece of path) hosts.push(...hostsInPath(piece, links.length + hosts.length > 0));
    for (const host of hosts) links.push({ host, domain: domainOf(host) });
  }
  return links;
};

/** Text after a slash is a path of the preceding link, unless it is separated from it. */
const hostsInPath = (piece: string, isAfterLink: boolean): string[] => {
  const hosts = namesIn(piece).filter(isHost);
  const isPath = isAfterLink && hosts.length > 0 && piece.startsWith(hosts[0]!);
  return isPath ? hosts.slice(1) : hosts;
};

/** Uses a loop: a regular expression for the end would examine a row of dots once for each of them. */
const trimEdges = (name: string): string => {
  let [start, end] = [0, name.length];
  while (start < end && EDGE.has(name[start]!)) start += 1;
  while (end > start && EDGE.has(name[end - 1]!)) end -= 1;
  return name.slice(start, end);
};

const namesIn = (piece: string): string[] =>
  piece
    .split(NO_HOST)
    .map(trimEdges)
    .filter((name) => name !== "");

/**
 * Returns the links of a text: with a scheme, `hxxp` too; names that end in a suffix of the public list; and
 * both with spelled-out dots. Linear in the text, total for any string.
 */
export const findLinks = (text: string): Link[] =>
  open(text)
    .split(/\s+/u)
    .flatMap((chunk) => (/[.:]/u.test(chunk) ? linksOf(chunk) : []));

/** Returns the first link of a text that does not lead to one of `allowedDomains` or a subdomain. */
export const findForeignLink = (text: string, allowedDomains: readonly string[]): Link | undefined => {
  // `bücher.de` and `xn--bcher-kva.de` are one.
  const nameOf = (domain: string): string => domainToASCII(domain) || domain;
  const allowed = new Set(allowedDomains.map((domain) => nameOf(domainOf(domain.toLowerCase()) ?? "")));
  return findLinks(text).find(({ domain }) => domain === null || !allowed.has(nameOf(domain)));
};

/** Name of the built-in list in flags and verdicts; no project's list can have it. */
const BUILT_IN = "@en";

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
  const squeezed = squeeze(word);
  return /^.?anal$/.test(word) || Object.keys(WHOLE).some((stem) => squeeze(stem) === squeezed);
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
const BUILT_IN_WORDS = compileWords(BUILT_IN, [...terms, whole, innocent]);

/** Actions that a word can cause, strongest first. */
type WordAction = Exclude<ListAction, "ALLOW">;

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
