import { z } from "zod";
import { clipped, type FieldProblem } from "./errors.ts";

/** Tells what is wrong with a value in words that follow the name of its field. */

type Issue = z.core.$ZodRawIssue;
type SizeIssue = Issue & { code: "too_big" | "too_small" };

const UNKNOWN_MAX = 5;
const KNOWN_MAX = 40;
const NAME_MAX = 64;

const KINDS: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "an integer",
  boolean: "true or false",
  array: "an array",
  tuple: "an array",
  object: "an object",
  record: "an object",
  null: "null",
  undefined: "absent",
  never: "absent",
};

const FORMATS: Readonly<Record<string, string>> = {
  email: "an email address",
  url: "a URL",
  uuid: "a UUID",
  datetime: "an ISO 8601 date-time with a zone, such as 2026-01-31T12:00:00Z",
  date: "a date of the form YYYY-MM-DD",
};

const kindOf = (value: unknown): string => {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  return KINDS[typeof value] ?? typeof value;
};

/** Returns the first `max` of `names`, and how many more there are. */
const listOf = (names: readonly string[], max: number): string => {
  const more = names.length > max ? ` and ${names.length - max} more` : "";
  return (
    names
      .slice(0, max)
      .map((name) => clipped(name, NAME_MAX))
      .join(", ") + more
  );
};

type Check = { _zod: { def: { check: string; format?: string } } };

/** Returns whether a schema of numbers takes integers only. */
const isOfIntegers = (inst: unknown): boolean => {
  const { checks = [] } = (inst as { _zod: { def: { checks?: Check[] } } } | undefined)?._zod.def ?? {};
  return checks.some(({ _zod: { def } }) => def.check === "number_format" && def.format !== "float64");
};

const ofType = ({ expected, input, inst }: Issue & { code: "invalid_type" }): string => {
  if (input === undefined) return "is required";
  const wanted = KINDS[isOfIntegers(inst) ? "int" : expected] ?? expected;
  const given = kindOf(input);
  // NaN is what no text of a parameter is read as: the caller has not written it.
  if (Number.isNaN(input)) return `must be ${wanted}`;
  if (typeof input === "number" && !Number.isFinite(input)) return `must be ${wanted}, not ${input}`;
  return given === wanted || expected === "int" ? `must be ${wanted}` : `must be ${wanted}, not ${given}`;
};

const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

const ofValues = (values: readonly unknown[], input: unknown): string => {
  const allowed = values.map((value) => textOf(value ?? null));
  if (input === undefined) return `is required: ${allowed.length > 1 ? "one of " : ""}${allowed.join(", ")}`;
  return `must be ${allowed.length > 1 ? "one of " : ""}${allowed.join(", ")}`;
};

const UNITS: Readonly<Record<string, readonly [one: string, many: string]>> = {
  string: ["character", "characters"],
  array: ["item", "items"],
  object: ["name", "names"],
};

/** Returns the words for "at most" and its like. */
const boundWords = (isMost: boolean, { exact = false, inclusive = true }: SizeIssue): string => {
  if (exact) return "exactly";
  if (inclusive) return isMost ? "at most" : "at least";
  return isMost ? "less than" : "more than";
};

const ofSize = (issue: SizeIssue): string => {
  const isMost = issue.code === "too_big";
  const bound = Number(isMost ? issue.maximum : issue.minimum);
  const words = boundWords(isMost, issue);
  const units = UNITS[issue.origin];
  if (!units) return `must be ${words} ${bound}`;
  return words === "at least" && bound === 1
    ? "must not be empty"
    : `must have ${words} ${bound} ${units[bound === 1 ? 0 : 1]}`;
};

const AFFIXES: Readonly<Record<string, readonly [words: string, key: string]>> = {
  starts_with: ["must start with", "prefix"],
  regex: ["must match", "pattern"],
};

const ofFormat = (issue: Issue & { code: "invalid_format" }): string => {
  const affix = AFFIXES[issue.format];
  if (affix) return `${affix[0]} ${String(issue[affix[1]])}`;
  const format = FORMATS[issue.format];
  return format ? `must be ${format}` : "has the wrong format";
};

/** Names that the object's schema lists. */
const knownBy = (inst: unknown): string[] => {
  const { shape = {} } = (inst as { _zod?: { def: { shape?: object } } } | undefined)?._zod?.def ?? {};
  return Object.keys(shape);
};

const ofUnknown = (keys: readonly string[], inst: unknown): string => {
  const known = knownBy(inst);
  const what = `unknown field${keys.length > 1 ? "s" : ""} ${listOf(keys, UNKNOWN_MAX)}`;
  return known.length === 0 ? what : `${what}; known: ${listOf(known, KNOWN_MAX)}`;
};

type Told = { code: string; path: PropertyKey[]; message: string };

/** What is wrong with the option that is nearest to the value: it takes its type, with fewest problems. */
const ofNearest = (options: readonly Told[][]): string | undefined => {
  const fits = (told: Told[]) => told.every(({ path, code }) => path.length > 0 || code !== "invalid_type");
  const near = options.filter(fits);
  const first = near.toSorted((a, b) => a.length - b.length)[0]?.[0];
  if (!first || first.path.length === 0) return first?.message;
  return `${first.path.map(String).join(".")}: ${first.message}`;
};

/** The types of all options, of which the value has none. */
const ofTypes = (options: readonly Told[][]): string => {
  const types = options.map(([first]) => /^must be (.*?)(?:, not [a-z ]+)?$/.exec(first!.message)?.[1]);
  const named = [...new Set(types.filter((type) => type !== undefined))];
  return named.length === 0 ? "is not valid" : `must be ${named.join(" or ")}`;
};

const ofUnion = (issue: Issue & { code: "invalid_union" }): string => {
  const { input, discriminator, options: values = [] } = issue as typeof issue & { options?: unknown[] };
  if (typeof discriminator === "string" && values.length > 0)
    return ofValues(values, (input as Record<string, unknown>)[discriminator]);
  if (input === undefined) return "is required";
  const options = issue.errors.filter((told) => told.length > 0);
  return ofNearest(options) ?? ofTypes(options);
};

type Code = Issue["code"];

const WORDS: { [C in Code]?: (issue: Issue & { code: C }) => string } = {
  invalid_type: ofType,
  invalid_value: ({ values, input }) => ofValues(values, input),
  too_big: ofSize,
  too_small: ofSize,
  invalid_format: ofFormat,
  not_multiple_of: ({ divisor }) => `must be a multiple of ${String(divisor)}`,
  unrecognized_keys: ({ keys, inst }) => ofUnknown(keys, inst),
  invalid_key: ({ issues }) => `has a name that is not permitted: ${issues[0]?.message ?? "it is not valid"}`,
  invalid_union: ofUnion,
};

/** Returns what is wrong, as the rest of a sentence that begins with the name of the field. */
const wordsOf = (issue: Issue): string => {
  const words = WORDS[issue.code] as ((issue: Issue) => string) | undefined;
  return words?.(issue) ?? "is not valid";
};

// Schemas that bring words of their own keep them.
z.config({ customError: wordsOf });

/** Of a value with a million bad items only the first problems are told. */
const PROBLEMS_MAX = 100;

/** Returns the first problems with the dotted paths of their fields; `root` names the value itself. */
export const problemsOf = (error: z.ZodError, root: string): FieldProblem[] =>
  error.issues.slice(0, PROBLEMS_MAX).map(({ path, message }) => ({
    field: path.length === 0 ? root : path.map(String).join("."),
    message,
  }));

/** Returns the first problem as a sentence, which begins with the path of its field if there is one. */
export const firstProblem = (error: z.ZodError, root = ""): string => {
  const [first] = problemsOf(error, root);
  if (!first) return "is not valid";
  return first.field === "" ? first.message : `${first.field}: ${first.message}`;
};
