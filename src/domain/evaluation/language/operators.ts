import { z } from "zod";
import { isReferenceObject, pairOf, Reference, Scalar, scalarList } from "./syntax.ts";
import type { EventContext } from "../rule-event.ts";

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

/** Compiles a matcher of whole strings: `*` is any run of characters, `?` one character. */
export const compileGlob = (glob: string): ((text: string) => boolean) => {
  const pattern = [...glob.replaceAll(/\*+/g, "*")];
  return (text) => text.length <= GLOB_TEXT_MAX && globMatches(pattern, [...text]);
};

/** Greedy, backtracking only to the latest star: at most pattern times text comparisons. */
const globMatches = (pattern: readonly string[], text: readonly string[]): boolean => {
  let p = 0;
  let t = 0;
  let star = -1;
  let resume = 0;
  while (t < text.length) {
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
  if (t < text.length) return false;
  return p === pattern.length || (p === pattern.length - 1 && pattern[p] === "*");
};

const ISO_TIME = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;

/**
 * Returns the ms since 1970 of an ISO 8601 date (its midnight in UTC) or of a date-time with a zone;
 * undefined for anything else.
 */
const parseTime = (value: unknown): number | undefined => {
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

/** Returns whether an actual value matches, at the time of an event. A missing value is undefined. */
type Check = (actual: unknown, context: EventContext) => boolean;

/** An operator: its operands and its decision. An operand of another type makes it false. */
type Operator = {
  /** Returns a message when a literal operand is invalid, otherwise undefined. */
  problem(operand: unknown): string | undefined;
  /** Whether the operand may be a reference. */
  takesReference: boolean;
  make(operand: unknown): Check;
};

const NEVER: Check = () => false;
const isText = (value: unknown): value is string => typeof value === "string";
const isNumber = (value: unknown): value is number => typeof value === "number";

const operator = (
  fits: (operand: unknown) => boolean,
  message: string,
  make: (operand: never) => Check,
): Operator => ({
  problem: (operand) => (fits(operand) ? undefined : message),
  takesReference: true,
  // A reference may resolve to a value of any type: an invalid one makes the condition false.
  make: (operand) => (fits(operand) ? make(operand as never) : NEVER),
});

const isScalar = (value: unknown): boolean =>
  value === null || ["string", "number", "boolean"].includes(typeof value);
const isOrdered = (value: unknown): boolean => isText(value) || isNumber(value);
const isList = (value: unknown): value is Scalar[] => Array.isArray(value);

/**
 * Compares number with number and string with string; NaN, which compares false with everything, otherwise.
 */
const compare = (a: unknown, b: unknown): number => {
  if (isNumber(a) && isNumber(b)) return a - b;
  return isText(a) && isText(b) ? compareText(a, b) : Number.NaN;
};

/** `numbers` is separate because rules mostly compare numbers. */
const ordered = (
  decide: (difference: number) => boolean,
  numbers: (operand: number) => (actual: unknown) => boolean,
): Operator =>
  operator(isOrdered, "must be a number or a string", (operand: number | string) => {
    if (isNumber(operand)) return numbers(operand);
    return (actual) => isText(actual) && decide(compareText(actual, operand));
  });

const scalar = (make: (operand: Scalar) => Check): Operator =>
  operator(isScalar, "must be one string, number, boolean or null", make);

const list = (make: (operand: ReadonlySet<unknown>) => Check): Operator => ({
  ...operator(isList, "must be a list of values", (operand: Scalar[]) => make(new Set(operand))),
  takesReference: false,
});

const text = (make: (operand: string) => (actual: string) => boolean): Operator =>
  operator(isText, "must be a string", (operand: string) => {
    const decide = make(operand);
    return (actual) => isText(actual) && decide(actual);
  });

const time = (decide: (actualMs: number, operandMs: number) => boolean): Operator =>
  operator(
    (operand) => parseTime(operand) !== undefined,
    "must be an ISO 8601 date or date-time with a zone",
    (operand: string) => {
      const operandMs = parseTime(operand)!;
      return (actual) => {
        const actualMs = parseTime(actual);
        return actualMs !== undefined && decide(actualMs, operandMs);
      };
    },
  );

const age = (decide: (ageMs: number, durationMs: number) => boolean): Operator =>
  operator(
    (operand) => parseDuration(operand) !== undefined,
    "must be an ISO 8601 duration in weeks, days, hours, minutes or seconds, such as P7D",
    (operand: string) => {
      const durationMs = parseDuration(operand)!;
      return (actual, { event }) => {
        const actualMs = parseTime(actual);
        return actualMs !== undefined && decide(event.at - actualMs, durationMs);
      };
    },
  );

/** Negates an operator, which is therefore true where the value is missing or of another type. */
const not = (base: Operator): Operator => ({
  ...base,
  make: (operand) => {
    const check = base.make(operand);
    return (actual, context) => !check(actual, context);
  },
});

const unary = (check: Check): Operator => ({
  problem: (operand) => (operand === undefined ? undefined : "must be absent for this operator"),
  takesReference: false,
  make: () => check,
});

const eq = scalar((operand) => (actual) => actual === operand);
const isIn = list((operand) => (actual) => operand.has(actual));
const contains = scalar(
  (operand) => (actual) =>
    Array.isArray(actual)
      ? actual.includes(operand)
      : isText(actual) && isText(operand) && holdsText(actual, operand),
);

const isRange = (operand: unknown): boolean =>
  isList(operand) && operand.length === 2 && compare(operand[1], operand[0]) >= 0;

/** The 22 operators. None converts types; each is false on missing data except the four negations. */
const OPERATORS = {
  eq,
  neq: not(eq),
  gt: ordered(
    (difference) => difference > 0,
    (operand) => (actual) => isNumber(actual) && actual > operand,
  ),
  gte: ordered(
    (difference) => difference >= 0,
    (operand) => (actual) => isNumber(actual) && actual >= operand,
  ),
  lt: ordered(
    (difference) => difference < 0,
    (operand) => (actual) => isNumber(actual) && actual < operand,
  ),
  lte: ordered(
    (difference) => difference <= 0,
    (operand) => (actual) => isNumber(actual) && actual <= operand,
  ),
  between: {
    ...operator(
      isRange,
      "must be [low, high], two numbers or two strings",
      ([low, high]: [Scalar, Scalar]) =>
        (actual) =>
          compare(actual, low) >= 0 && compare(actual, high) <= 0,
    ),
    takesReference: false,
  },
  in: isIn,
  not_in: not(isIn),
  contains,
  not_contains: not(contains),
  contains_any: list(
    (operand) => (actual) => Array.isArray(actual) && actual.some((item) => operand.has(item)),
  ),
  contains_all: list((operand) => (actual) => {
    if (!Array.isArray(actual)) return false;
    const found = new Set(actual.filter((item) => operand.has(item)));
    return found.size === operand.size;
  }),
  starts_with: text((operand) => (actual) => actual.startsWith(operand)),
  ends_with: text((operand) => (actual) => actual.endsWith(operand)),
  glob: operator(
    (operand) => isText(operand) && operand.length <= GLOB_PATTERN_MAX,
    `must be a string of at most ${GLOB_PATTERN_MAX} characters`,
    (operand: string) => {
      const matches = compileGlob(operand);
      return (actual) => isText(actual) && matches(actual);
    },
  ),
  exists: unary((actual) => actual !== undefined),
  not_exists: unary((actual) => actual === undefined),
  before: time((actualMs, operandMs) => actualMs < operandMs),
  after: time((actualMs, operandMs) => actualMs > operandMs),
  within_last: age((ageMs, durationMs) => ageMs >= 0 && ageMs <= durationMs),
  older_than: age((ageMs, durationMs) => ageMs > durationMs),
} satisfies Record<string, Operator>;

export type OperatorName = keyof typeof OPERATORS;
export const OPERATOR_NAMES = Object.keys(OPERATORS) as OperatorName[];

/** Maximum items of a list operand. */
export const LIST_MAX = 500;

/** The fields `op` and `value` of a condition; to be checked together with `checkOperand`. */
export const comparisonFields = {
  op: z.enum(OPERATOR_NAMES),
  value: z.union([Scalar, Reference, scalarList(1, LIST_MAX)], { error: "is not a value" }).optional(),
};
const NUMERIC = ["eq", "neq", "gt", "gte", "lt", "lte", "between"] as const satisfies OperatorName[];

/** The fields `op` and `value` of a numeric condition; to be checked together with `checkOperand`. */
export const numericFields = {
  op: z.enum(NUMERIC),
  value: z.union([z.number(), pairOf(z.number()), Reference], {
    error: "must be a number, [low, high] or a ref",
  }),
};

export type Comparison = { op: OperatorName; value?: Scalar | Reference | Scalar[] | undefined };

/** Zod check of whether the value fits the operator. */
export const checkOperand = ({ op, value }: Comparison, context: z.RefinementCtx): void => {
  const entry: Operator = OPERATORS[op];
  const isFree = entry.takesReference && isReferenceObject(value);
  const problem = isFree ? undefined : entry.problem(value);
  if (problem !== undefined)
    context.addIssue({ code: "custom", path: ["value"], message: `${problem} (${op})` });
};

/** Compiles an operator for a resolved operand; an invalid one makes it false. */
export const compileCheck = (op: OperatorName, operand: unknown): Check => {
  const { make }: Operator = OPERATORS[op];
  return make(operand);
};
