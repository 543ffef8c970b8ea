import type { StepBudget } from "../../kernel/step-budget.ts";

/** Text and time as rules compare them. */

/** Longer strings never match a glob, which bounds the work of one comparison. */
export const GLOB_TEXT_MAX = 1_024;
export const GLOB_PATTERN_MAX = 200;

/** UTF-16 orders surrogates below U+E000; this moves them above, where their code points are. */
const order = (unit: number): number =>
  unit >= 0xe000 ? unit - 0x800 : unit >= 0xd800 ? unit + 0x2000 : unit;

/** Compares by code point, without regard to any language: negative, 0 or positive. */
export const compareText = (a: string, b: string): number => {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const difference = a.charCodeAt(i) - b.charCodeAt(i);
    if (difference !== 0) return order(a.charCodeAt(i)) - order(b.charCodeAt(i));
  }
  return a.length - b.length;
};

/**
 * Characters of a part that the engine's own search is asked for. It learns from 250 of a part at most, and
 * compares a longer one anew at nearly every place of a hostile text.
 */
const ENGINE_PART_MAX = 64;

/** Whether `part` stands in `text`. Takes time in proportion to both lengths, whatever they hold. */
export const holdsText = (text: string, part: string): boolean =>
  part.length <= ENGINE_PART_MAX ? text.includes(part) : holdsLong(text, part);

/**
 * D. Knuth, J. Morris, V. Pratt: Fast Pattern Matching in Strings, SIAM Journal on Computing 6 (2), 1977.
 * No character of the text is looked at again: how much of the part a mismatch leaves matched is known.
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

/** Of each beginning of `part`, how long the longest shorter beginning is with which it ends. */
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

/** Comparisons of characters that a glob makes in one step of a budget. */
const COMPARISONS_PER_STEP = 16;

/** Matches a whole string; what it has taken is charged to `steps`. */
export type Glob = (text: string, steps: StepBudget) => boolean;

/** A matcher of whole strings: `*` is any run of characters, `?` one character. */
export const compileGlob = (glob: string): Glob => {
  const pattern = [...glob.replaceAll(/\*+/g, "*")];
  return (text, steps) => {
    if (text.length > GLOB_TEXT_MAX) return false;
    return globMatches(pattern, [...text], steps);
  };
};

/** Greedy with one step back to the latest star: at most pattern times text comparisons. */
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
 * Ms since 1970 of an ISO 8601 date (its midnight in UTC) or of a date-time with a zone; undefined for
 * anything else.
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
 * Ms of an ISO 8601 duration in weeks, days, hours, minutes and seconds, such as `P7D` or `PT12H`; else
 * undefined.
 */
export const parseDuration = (value: unknown): number | undefined => {
  const found = typeof value === "string" ? DURATION.exec(value) : null;
  if (!found) return undefined;
  return UNITS_MS.reduce((sum, unit, i) => sum + unit * Number(found[i + 1] ?? 0), 0);
};
