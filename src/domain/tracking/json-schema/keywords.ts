import { isJsonObject } from "../../kernel/json.ts";
import type { Json } from "../../kernel/events/events.ts";
import { type Check, fail, type Run } from "./run.ts";
import { isComposite, isMultiple, lengthOf, textOf, TYPES, typesOf } from "./values.ts";

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
