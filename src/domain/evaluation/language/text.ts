import type { StepBudget } from "../../kernel/step-budget.ts";

/** Comparison of text and time by rules. */

/** Longer strings never match a glob, which bounds the cost of one comparison. */
export const GLOB_TEXT_MAX = 1_024;
export const GLOB_PATTERN_MAX = 200;

/** UTF-16 orders surrogates below U+E000; this moves them above, where their code points are. */
const order = (unit: number): number =>
  unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit;

/** Compares by code point, independent of language: negative, 0 or positive. */
export const compareText = (a: string, b: string): number => {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const difference = a.charCodeAt(i) - b.charCodeAt(i);
    if (difference !== 0) return order(a.charCodeAt(i)) - order(b.charCodeAt(i));
  }
  return a.length - b.length;
};

/**
 * Maximum length of a part searched for by the engine's own search, whose heuristics use at most 250
 * characters: for a longer part it restarts the comparison at nearly every position of a hostile text.
 */
const ENGINE_PART_MAX = 64;

/** Returns whether `text` contains `part`, in time proportional to both lengths, whatever the input. */
export const holdsText = (text: string, part: string): boolean =>
  part.length <= ENGINE_PART_MAX ? text.includes(part) : holdsLong(text, part);

/**
 * D. Knuth, J. Morris, V. Pratt: Fast Pattern Matching in Strings, SIAM Journal on Computing 6 (2), 1977. No
 * character of the text is read again: a mismatch determines how much of the part still matches.
 */
const holdsLong = (text: string, part: string): boolean => {
  if (part.length > text.length) return false;
  const borders = bordersOf(part);
  let matched = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    while (matched > 0 && part.charCodeAt(matched) !== unit) matched = borders[matched - 1]!;
    if (part.charCodeAt(matched) === unit && ++matched === part.length) return true;
  }
  return false;
};

/** Returns, for each prefix of `part`, the length of the longest shorter prefix that is also its suffix. */
const bordersOf = (part: string): Int32Array => {
  const borders = new Int32Array(part.length);
  let matched = 0;
  for (let i = 1; i < part.length; i++) {
    const unit = part.charCodeAt(i);
    while (matched > 0 && part.charCodeAt(matched) !== unit) matched = borders[matched - 1]!;
    if (part.charCodeAt(matched) === unit) matched++;
    borders[i] = matched;
  }
  return borders;
};

/** Character comparisons of a glob per step. */
const COMPARISONS_PER_STEP = 16;

/** Matches a whole string; the cost is charged to `steps`. */
export type Glob = (text: string, steps: StepBudget) => boolean;

/** Compiles a matcher of whole strings: `*` is any run of characters, `?` one character. */
export const compileGlob = (glob: string): Glob => {
  const pattern = [...glob.replaceAll(/\*+/g, "*")];
  return (text, steps) => {
    if (text.length > GLOB_TEXT_MAX) return false;
    return globMatches(pattern, [...text], steps);
  };
};

/** Greedy, backtracking only to the latest star: at most pattern times text comparisons. */
const globMatches = (pattern: readonly string[], text: readonly string[], steps: StepBudget): boolean => {
  let compared = 4 * text.length;
  let p = 0;
  let t = 0;
  let star = -1;
  let resume = 0;
  while (t < text.length) {
    compared++;
    if (pattern[p] === "*") {
      star = p++;
      resume = t;
    } else if (p < pattern.length && (pattern[p] === "?" || pattern[p] === text[t])) {
      p++;
      t++;
    } else if (star >= 0) {
      p = star + 1;
      t = ++resume;
    } else {
      break;
    }
  }
  steps.spend(compared / COMPARISONS_PER_STEP);
  if (t < text.length) return false;
  return p === pattern.length || (p === pattern.length - 1 && pattern[p] === "*");
};

const ISO_TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;

/**
 * Returns the ms since 1970 of an ISO 8601 date (its midnight in UTC) or of a date-time with a zone;
 * undefined for anything else.
 */
export const parseTime = (value: unknown): number | undefined => {
  if (typeof value !== "string" || !ISO_TIME.test(value)) return undefined;
  const ms = Date.parse(value);
  return Number.isNaN(ms) ? undefined : ms;
};

const DURATION =
  /^P(?=\d|T\d)(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?=\d)(?:(\d{1,8})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?$/;
const UNITS_MS = [604_800_000, 86_400_000, 3_600_000, 60_000, 1_000];

/**
 * Returns the ms of an ISO 8601 duration in weeks, days, hours, minutes and seconds, such as `P7D` or
 * `PT12H`; otherwise undefined.
 */
export const parseDuration = (value: unknown): number | undefined => {
  const found = typeof value === "string" ? DURATION.exec(value) : null;
  if (!found) return undefined;
  return UNITS_MS.reduce((sum, unit, i) => sum + unit * Number(found[i + 1] ?? 0), 0);
};
