import type { Json } from "../../events.ts";
import { APPLICATORS, COMPANIONS } from "./applicators.ts";
import { ANNOTATIONS, ASSERTIONS, type Keyword, type Place } from "./keywords.ts";
import { type Check, fail, type Failure, REFERENCES_MAX, type Run, step, TooCostly } from "./run.ts";
import { isObject } from "./values.ts";

/**
 * JSON Schema 2020-12 for the properties of events, without regular expressions, remote references or
 * generated code: a tenant's schema is run by every process that takes events, so what it may cost is bounded
 * by steps, whatever it says.
 */

/** Bytes of a schema as JSON. */
export const SCHEMA_MAX_BYTES = 16 * 1024;
/** Schemas inside of one another, counted all together. */
export const SCHEMA_MAX_PARTS = 500;
const DIALECT = "https://json-schema.org/draft/2020-12/schema";
const PROBLEMS_MAX = 20;

export type SchemaProblem = { path: string; message: string };

/** Holds values against a schema; at most FAILURES_MAX failures are told. */
export type Validate = (value: unknown) => Failure[];

export type CompiledSchema = { validate: Validate } | { problems: SchemaProblem[] };

/** Keywords of JSON Schema that are refused, and why. */
const REFUSED: ReadonlyMap<string, string> = new Map([
  ["pattern", "is not available: a regular expression may take for ever. Use enum, const or lengths"],
  ["patternProperties", "is not available: a regular expression may take for ever. Use propertyNames"],
  ["unevaluatedItems", "is not available: use items: false"],
  ["unevaluatedProperties", "is not available: use additionalProperties: false"],
]);

const keywordOf = (name: string): Keyword | undefined => {
  if (Object.hasOwn(ASSERTIONS, name)) return ASSERTIONS[name];
  return Object.hasOwn(APPLICATORS, name) ? APPLICATORS[name] : undefined;
};

type Path = readonly (string | number)[];

const ACCEPT: Check = () => true;
const REFUSE: Check = (_value, run) => fail(run, "is not allowed");

const unescape = (part: string): string => {
  try {
    return decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return part;
  }
};

/** Where a JSON pointer leads. */
const follow = (root: unknown, ref: string): unknown => {
  let value = root;
  for (const part of ref.slice(2).split("/").map(unescape)) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, part)) return undefined;
    value = (value as Json)[part];
  }
  return value;
};

const LOCAL = /^#(\/|$)/;

/** A schema that is being compiled. */
type Compilation = {
  root: unknown;
  problems: SchemaProblem[];
  /** Checks of what references name, by reference. */
  references: Map<string, { check: Check }>;
  parts: number;
};

const refuse = ({ problems }: Compilation, path: Path, message: string): undefined => {
  if (problems.length < PROBLEMS_MAX) problems.push({ path: path.join("."), message });
  return undefined;
};

/** Prepares a schema, or says what is wrong with it. */
export const compileSchema = (root: unknown): CompiledSchema => {
  const compilation: Compilation = { root, problems: [], references: new Map(), parts: 0 };
  const check = compile(compilation, root, []);
  const { problems } = compilation;
  return problems.length > 0 ? { problems } : { validate: (value) => validateWith(check, value) };
};

const compile = (compilation: Compilation, schema: unknown, path: Path): Check => {
  const parts = ++compilation.parts;
  if (parts > SCHEMA_MAX_PARTS) {
    if (parts === SCHEMA_MAX_PARTS + 1)
      refuse(compilation, [], `holds more than ${SCHEMA_MAX_PARTS} schemas`);
    return REFUSE;
  }
  if (typeof schema === "boolean") return schema ? ACCEPT : REFUSE;
  if (!isObject(schema)) {
    refuse(compilation, path, "must be a schema: an object, true or false");
    return REFUSE;
  }
  const checks = Object.keys(schema).flatMap((name) => compileKeyword(compilation, schema, name, path) ?? []);
  return (value, run) => {
    step(run);
    let holds = true;
    for (const check of checks) holds = check(value, run) && holds;
    return holds;
  };
};

const compileKeyword = (
  compilation: Compilation,
  schema: Json,
  name: string,
  path: Path,
): Check | undefined => {
  const at = [...path, name];
  if (name === "$schema" && schema[name] !== DIALECT) refuse(compilation, at, `must be ${DIALECT}`);
  if (ANNOTATIONS.has(name) || COMPANIONS.has(name)) return undefined;
  const keyword = keywordOf(name);
  if (!keyword) return refuse(compilation, at, REFUSED.get(name) ?? "is no keyword that is known here");
  const place: Place = {
    schema,
    compile: (inner, more) => compile(compilation, inner, [...path, ...more]),
    resolve: (ref) => resolve(compilation, ref, at),
    refuse: (message) => refuse(compilation, at, message),
  };
  return keyword(schema[name], place);
};

const targetOf = ({ root }: Compilation, ref: string): unknown => {
  if (ref === "#") return root;
  return LOCAL.test(ref) ? follow(root, ref) : undefined;
};

const resolve = (compilation: Compilation, ref: string, path: Path): Check => {
  const { references } = compilation;
  const target = targetOf(compilation, ref);
  if (target === undefined) {
    refuse(compilation, path, "must lead to a part of this schema, such as #/$defs/name");
    return REFUSE;
  }
  const known = references.get(ref) ?? { check: ACCEPT };
  if (!references.has(ref)) {
    // Before it is compiled: it may lead back to itself.
    references.set(ref, known);
    known.check = compile(compilation, target, path);
  }
  return (value, run) => enter(run, known.check, value);
};

const enter = (run: Run, check: Check, value: unknown): boolean => {
  if (++run.depth > REFERENCES_MAX) throw new TooCostly(`follows more than ${REFERENCES_MAX} references`);
  const holds = check(value, run);
  run.depth--;
  return holds;
};

const validateWith = (check: Check, value: unknown): Failure[] => {
  const run: Run = { steps: 0, depth: 0, path: [], failures: [] };
  const { failures } = run;
  try {
    return check(value, run) ? [] : failures!;
  } catch (error) {
    if (!(error instanceof TooCostly)) throw error;
    return [{ path: "", message: `cannot be checked: the schema ${error.message}` }];
  }
};
