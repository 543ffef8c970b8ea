import type { Json } from "../../kernel/events/events.ts";
import { isJsonObject } from "../../kernel/json.ts";
import { StepBudget } from "../../kernel/pace.ts";

/** A part of a value that violates the schema. */
export type Failure = {
  /** Names and indexes joined by dots; "" for the value itself. */
  path: string;
  message: string;
};

/** State of a running validation. */
export type Run = {
  /** Remaining step budget. Every keyword charges what it is about to read. */
  budget: StepBudget;
  /** Depth of nested references. */
  depth: number;
  path: (string | number)[];
  /** Undefined while only the outcome matters. */
  failures: Failure[] | undefined;
};

/** Returns whether a value matches. */
export type Check = (value: unknown, run: Run) => boolean;

/** Maximum steps of the check of one value: about 5 ms of CPU. */
export const STEPS_MAX = 50_000;
/** Maximum steps of the checks of all events of one request: about 500 ms, in slices. */
export const BATCH_STEPS_MAX = 5_000_000;
/** Maximum depth of nested references for one value. */
export const REFERENCES_MAX = 64;
/** Maximum failures reported. */
const FAILURES_MAX = 5;

/** Thrown when references are nested too deep. */
export class TooDeep extends Error {}

/** @param steps the step budget of the run */
export const newRun = (steps: number): Run => ({
  budget: new StepBudget(steps),
  depth: 0,
  path: [],
  failures: [],
});

/** Records a failure at the current path. @returns false */
export const fail = ({ failures, path }: Run, message: string): false => {
  if (failures && failures.length < FAILURES_MAX) failures.push({ path: path.join("."), message });
  return false;
};

/** Checks a part of the value under its own name. */
export const within = (run: Run, name: string | number, check: Check, value: unknown): boolean => {
  run.path.push(name);
  const holds = check(value, run);
  run.path.pop();
  return holds;
};

/** Runs a check without recording failures. */
export const quietly = (run: Run, check: Check, value: unknown): boolean => {
  const { failures } = run;
  run.failures = undefined;
  const holds = check(value, run);
  run.failures = failures;
  return holds;
};

/** Returns the JSON Schema types of a JSON value; a whole number has two. */
const typesOf = (value: unknown): readonly string[] => {
  if (value === null) return ["null"];
  if (Array.isArray(value)) return ["array"];
  if (typeof value === "number") return Number.isInteger(value) ? ["integer", "number"] : ["number"];
  return [typeof value];
};

const TYPES: ReadonlySet<unknown> = new Set([
  "null",
  "boolean",
  "object",
  "array",
  "number",
  "string",
  "integer",
]);

/** Returns a text that is equal for equal values: for 1 and 1.0, but not for 1 and true. */
const textOf = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(textOf).join()}]`;
  if (!isJsonObject(value)) return JSON.stringify(value);
  const names = Object.keys(value).toSorted();
  return `{${names.map((name) => `${JSON.stringify(name)}:${textOf(value[name])}`).join()}}`;
};

/** Returns whether a JSON value is a list or an object. */
const isComposite = (value: unknown): value is object => value !== null && typeof value === "object";

/** Length in code points: characters beyond the first 65,536 count once. */
const lengthOf = (text: string): number => {
  let length = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    if (text.codePointAt(i)! > 0xffff) {
      length--;
      i++;
    }
  }
  return length;
};

/** A number as it is written: digits and the power of ten that they are multiplied by. */
const decimalOf = (value: number): { digits: bigint; power: number } => {
  const [digits, power = "0"] = Math.abs(value).toExponential().split("e") as [string, string?];
  const [whole, part = ""] = digits.split(".") as [string, string?];
  return { digits: BigInt(whole + part), power: Number(power) - part.length };
};

/** Returns whether a number is a whole multiple, as both are written: 19.99 is a multiple of 0.01. */
const isMultiple = (value: number, of: number): boolean => {
  const [a, b] = [decimalOf(value), decimalOf(of)];
  const apart = a.power - b.power;
  const scale = 10n ** BigInt(Math.abs(apart));
  return apart >= 0 ? (a.digits * scale) % b.digits === 0n : a.digits % (b.digits * scale) === 0n;
};

/** The context in which a keyword is compiled. */
export type KeywordContext = {
  /** The schema object that contains the keyword. */
  schema: Json;
  /** Compiles a nested schema; `path` leads from the schema object to it. */
  compile(schema: unknown, path: readonly (string | number)[]): Check;
  /** Returns the check of the schema that a `$ref` names. */
  resolve(ref: string): Check;
  /** Reports that the keyword's value is invalid. */
  refuse(message: string): undefined;
};

/** Compiles the value of a keyword; undefined where it has no effect on values. */
export type Keyword = (given: unknown, place: KeywordContext) => Check | undefined;

const isCount = (value: unknown): value is number => Number.isInteger(value) && (value as number) >= 0;
const isNames = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((name) => typeof name === "string");

/** Builds a keyword for numbers. */
const ofNumber =
  (holds: (value: number, bound: number) => boolean, message: (bound: number) => string): Keyword =>
  (bound, { refuse }) => {
    if (typeof bound !== "number") return refuse("must be a number");
    return (value, run) => typeof value !== "number" || holds(value, bound) || fail(run, message(bound));
  };

/** Builds a keyword that counts something in strings, arrays or objects. */
const ofCount =
  (
    countOf: (value: unknown, run: Run) => number | undefined,
    holds: (count: number, bound: number) => boolean,
    message: (bound: number) => string,
  ): Keyword =>
  (bound, { refuse }) => {
    if (!isCount(bound)) return refuse("must be a whole number, not negative");
    return (value, run) => {
      const count = countOf(value, run);
      return count === undefined || holds(count, bound) || fail(run, message(bound));
    };
  };

const atLeast = (count: number, bound: number): boolean => count >= bound;
const atMost = (count: number, bound: number): boolean => count <= bound;
const characters = (value: unknown, { budget }: Run): number | undefined => {
  if (typeof value !== "string") return undefined;
  budget.chargeText(value);
  return lengthOf(value);
};
const items = (value: unknown): number | undefined => (Array.isArray(value) ? value.length : undefined);
const properties = (value: unknown, run: Run): number | undefined =>
  isJsonObject(value) ? namesOf(value, run).length : undefined;

/** Returns the names in an object, and charges for them. */
export const namesOf = (value: Json, { budget }: Run): string[] => {
  const names = Object.keys(value);
  budget.charge(names.length);
  return names;
};

const type: Keyword = (given, { refuse }) => {
  const allowed = [...new Set<unknown>(Array.isArray(given) ? given : [given])];
  if (allowed.length === 0 || !allowed.every((one) => TYPES.has(one)))
    return refuse(`must be one or more of ${[...TYPES].join(", ")}`);
  const message = `must be ${allowed.join(" or ")}`;
  return (value, run) => typesOf(value).some((one) => allowed.includes(one)) || fail(run, message);
};

/** Maximum values of an `enum` listed in a message. */
const NAMED_MAX = 10;

/** Builds a check that a value is one of `allowed`; scalars are compared without being serialised. */
const isAmong = (allowed: readonly unknown[]): Check => {
  const plain = new Set(allowed.filter((one) => !isComposite(one)));
  const texts = new Set(allowed.filter(isComposite).map(textOf));
  return (value, { budget }) => {
    if (isComposite(value)) {
      if (texts.size === 0) return false;
      budget.chargeValue(value);
      return texts.has(textOf(value));
    }
    if (typeof value === "string") budget.chargeText(value);
    return plain.has(value);
  };
};

const oneOfValues: Keyword = (given, { refuse }) => {
  if (!Array.isArray(given) || given.length === 0) return refuse("must be a list of values");
  const isOne = isAmong(given);
  const texts = new Set(given.map(textOf));
  const named = [...texts].slice(0, NAMED_MAX).join(", ");
  const message = `must be one of ${named}${texts.size > NAMED_MAX ? ", …" : ""}`;
  return (value, run) => isOne(value, run) || fail(run, message);
};

const constant: Keyword = (given) => {
  const isIt = isAmong([given]);
  const message = `must be ${textOf(given)}`;
  return (value, run) => isIt(value, run) || fail(run, message);
};

const multipleOf: Keyword = (given, { refuse }) => {
  if (typeof given !== "number" || given <= 0) return refuse("must be a number above 0");
  const message = `must be a multiple of ${given}`;
  return (value, run) => typeof value !== "number" || isMultiple(value, given) || fail(run, message);
};

const uniqueItems: Keyword = (given, { refuse }) => {
  if (typeof given !== "boolean") return refuse("must be true or false");
  if (!given) return undefined;
  return (value, run) => {
    if (!Array.isArray(value)) return true;
    run.budget.chargeValue(value);
    return new Set(value.map(textOf)).size === value.length || fail(run, "must not contain a value twice");
  };
};

const missing = (value: Json, names: readonly string[], { budget }: Run): string | undefined => {
  budget.charge(names.length);
  return names.find((name) => !Object.hasOwn(value, name));
};

const required: Keyword = (given, { refuse }) => {
  if (!isNames(given)) return refuse("must be a list of names");
  return (value, run) => {
    if (!isJsonObject(value)) return true;
    const name = missing(value, given, run);
    return name === undefined || fail(run, `must have ${name}`);
  };
};

const dependentRequired: Keyword = (given, { refuse }) => {
  if (!isJsonObject(given) || !Object.values(given).every(isNames)) return refuse("must hold lists of names");
  const rules = Object.entries(given) as [string, string[]][];
  return (value, run) => {
    if (!isJsonObject(value)) return true;
    run.budget.charge(rules.length);
    return rules.every(([name, names]) => {
      if (!Object.hasOwn(value, name)) return true;
      const lacking = missing(value, names, run);
      return lacking === undefined || fail(run, `must have ${lacking} beside ${name}`);
    });
  };
};

/** Keywords that check the value itself. */
export const ASSERTIONS: Readonly<Record<string, Keyword>> = {
  type,
  enum: oneOfValues,
  const: constant,
  multipleOf,
  maximum: ofNumber(atMost, (bound) => `must be at most ${bound}`),
  exclusiveMaximum: ofNumber(
    (value, bound) => value < bound,
    (bound) => `must be less than ${bound}`,
  ),
  minimum: ofNumber(atLeast, (bound) => `must be at least ${bound}`),
  exclusiveMinimum: ofNumber(
    (value, bound) => value > bound,
    (bound) => `must be more than ${bound}`,
  ),
  maxLength: ofCount(characters, atMost, (bound) => `must have at most ${bound} characters`),
  minLength: ofCount(characters, atLeast, (bound) => `must have at least ${bound} characters`),
  maxItems: ofCount(items, atMost, (bound) => `must have at most ${bound} items`),
  minItems: ofCount(items, atLeast, (bound) => `must have at least ${bound} items`),
  maxProperties: ofCount(properties, atMost, (bound) => `must have at most ${bound} properties`),
  minProperties: ofCount(properties, atLeast, (bound) => `must have at least ${bound} properties`),
  uniqueItems,
  required,
  dependentRequired,
};

/** Keywords that are annotations only. `format` is one of them, as in 2020-12. */
export const ANNOTATIONS: ReadonlySet<string> = new Set([
  "$schema",
  "$comment",
  "title",
  "description",
  "default",
  "examples",
  "deprecated",
  "readOnly",
  "writeOnly",
  "format",
]);
