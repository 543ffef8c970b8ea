import type { Json } from "../../kernel/events/events.ts";
import { isJsonObject } from "../../kernel/json.ts";
import { StepBudget, StepsExceeded } from "../../kernel/pace.ts";
import {
  ANNOTATIONS,
  ASSERTIONS,
  BATCH_STEPS_MAX,
  type Check,
  fail,
  type Failure,
  type Keyword,
  type KeywordContext,
  namesOf,
  newRun,
  quietly,
  REFERENCES_MAX,
  type Run,
  STEPS_MAX,
  TooDeep,
  within,
} from "./keywords.ts";

const all = (checks: readonly Check[], run: Parameters<Check>[1], value: unknown): boolean => {
  run.budget.charge(checks.length);
  // Runs every check, so that all failures are reported.
  let holds = true;
  for (const check of checks) holds = check(value, run) && holds;
  return holds;
};

/** Builds a keyword whose value is a list of schemas. */
const ofSchemas =
  (name: string, combine: (checks: readonly Check[]) => Check): Keyword =>
  (given, { compile, refuse }) => {
    if (!Array.isArray(given) || given.length === 0) return refuse("must be a list of schemas");
    return combine(given.map((schema, i) => compile(schema, [name, i])));
  };

const countMatches = (checks: readonly Check[], run: Parameters<Check>[1], value: unknown): number => {
  run.budget.charge(checks.length);
  return checks.filter((check) => quietly(run, check, value)).length;
};

const anyOf = ofSchemas("anyOf", (checks) => (value, run) => {
  run.budget.charge(checks.length);
  const holds = checks.some((check) => quietly(run, check, value));
  return holds || fail(run, "must match one of anyOf");
});

const oneOf = ofSchemas("oneOf", (checks) => (value, run) => {
  const matches = countMatches(checks, run, value);
  return matches === 1 || fail(run, `must match exactly one of oneOf, and matches ${matches}`);
});

const not: Keyword = (given, { compile }) => {
  const check = compile(given, ["not"]);
  return (value, run) => !quietly(run, check, value) || fail(run, "must not match the schema of not");
};

const branch: Keyword = (given, { schema, compile }) => {
  const test = compile(given, ["if"]);
  const yes = schema["then"] === undefined ? undefined : compile(schema["then"], ["then"]);
  const no = schema["else"] === undefined ? undefined : compile(schema["else"], ["else"]);
  return (value, run) => (quietly(run, test, value) ? yes : no)?.(value, run) ?? true;
};

/** Builds a keyword whose value is an object of schemas. */
const ofNamed =
  (keyword: string, combine: (checks: [name: string, check: Check][]) => Check | undefined): Keyword =>
  (given, { compile, refuse }) => {
    if (!isJsonObject(given)) return refuse("must be an object of schemas");
    return combine(Object.entries(given).map(([name, schema]) => [name, compile(schema, [keyword, name])]));
  };

const properties = ofNamed("properties", (checks) => (value, run) => {
  if (!isJsonObject(value)) return true;
  run.budget.charge(checks.length);
  let holds = true;
  for (const [name, check] of checks) {
    if (Object.hasOwn(value, name)) holds = within(run, name, check, value[name]) && holds;
  }
  return holds;
});

const dependentSchemas = ofNamed("dependentSchemas", (checks) => (value, run) => {
  if (!isJsonObject(value)) return true;
  run.budget.charge(checks.length);
  const those = checks.filter(([name]) => Object.hasOwn(value, name)).map(([, check]) => check);
  return all(those, run, value);
});

/** Compiled to report problems in them; applied where a `$ref` names them. */
const definitions = ofNamed("$defs", () => undefined);

const additionalProperties: Keyword = (given, { schema, compile }) => {
  const named = schema["properties"];
  const known = new Set(isJsonObject(named) ? Object.keys(named) : []);
  const check = compile(given, ["additionalProperties"]);
  return (value, run) => {
    if (!isJsonObject(value)) return true;
    let holds = true;
    for (const name of namesOf(value, run)) {
      if (known.has(name)) continue;
      if (given === false) holds = fail(run, `must not have ${name.slice(0, 100)}`);
      else holds = within(run, name, check, value[name]) && holds;
    }
    return holds;
  };
};

const propertyNames: Keyword = (given, { compile }) => {
  const check = compile(given, ["propertyNames"]);
  return (value, run) => {
    if (!isJsonObject(value)) return true;
    const wrong = namesOf(value, run).find((name) => !quietly(run, check, name));
    return wrong === undefined || fail(run, `must not have a property called ${wrong.slice(0, 100)}`);
  };
};

const prefixItems = ofSchemas("prefixItems", (checks) => (value, run) => {
  if (!Array.isArray(value)) return true;
  const present = checks.slice(0, value.length);
  run.budget.charge(present.length);
  let holds = true;
  for (const [i, check] of present.entries()) holds = within(run, i, check, value[i]) && holds;
  return holds;
});

const items: Keyword = (given, { schema, compile }) => {
  const prefix = schema["prefixItems"];
  const first = Array.isArray(prefix) ? prefix.length : 0;
  const check = compile(given, ["items"]);
  return (value, run) => {
    if (!Array.isArray(value)) return true;
    run.budget.charge(value.length);
    let holds = true;
    for (let i = first; i < value.length; i++) holds = within(run, i, check, value[i]) && holds;
    return holds;
  };
};

const boundOf = (given: unknown, fallback: number): number | undefined => {
  if (given === undefined) return fallback;
  return Number.isInteger(given) && (given as number) >= 0 ? (given as number) : undefined;
};

const contains: Keyword = (given, { schema, compile, refuse }) => {
  const least = boundOf(schema["minContains"], 1);
  const most = boundOf(schema["maxContains"], Infinity);
  if (least === undefined || most === undefined)
    return refuse("requires whole numbers for minContains and maxContains");
  const check = compile(given, ["contains"]);
  return (value, run) => {
    if (!Array.isArray(value)) return true;
    run.budget.charge(value.length);
    const count = value.filter((item) => quietly(run, check, item)).length;
    if (count < least) return fail(run, `must hold at least ${least} items that match contains`);
    return count <= most || fail(run, `must hold at most ${most} items that match contains`);
  };
};

const reference: Keyword = (given, { resolve, refuse }) =>
  typeof given === "string" ? resolve(given) : refuse("must be a string");

/** Keywords that apply schemas to the value or its parts. */
const APPLICATORS: Readonly<Record<string, Keyword>> = {
  $ref: reference,
  $defs: definitions,
  allOf: ofSchemas("allOf", (checks) => (value, run) => all(checks, run, value)),
  anyOf,
  oneOf,
  not,
  if: branch,
  properties,
  dependentSchemas,
  additionalProperties,
  propertyNames,
  prefixItems,
  items,
  contains,
};

/** Keywords read by the keyword that they accompany. */
const COMPANIONS: ReadonlySet<string> = new Set(["then", "else", "minContains", "maxContains"]);

/**
 * JSON Schema 2020-12 for event properties, without regular expressions, remote references or generated code:
 * a tenant's schema runs in every process that ingests events, so its cost is bounded by steps, whatever it
 * contains.
 */

/** Maximum bytes of a schema as JSON. */
export const SCHEMA_MAX_BYTES = 16 * 1024;
/** Maximum nested schemas, counted all together. */
export const SCHEMA_MAX_PARTS = 500;
/**
 * Maximum steps of compiling a schema: about 5 ms of CPU. A schema of 16 KiB takes at most a third of them,
 * unless many references name the same long lists.
 */
export const COMPILE_STEPS_MAX = 50_000;
const DIALECT = "https://json-schema.org/draft/2020-12/schema";
const PROBLEMS_MAX = 20;

type SchemaProblem = { path: string; message: string };

/**
 * Validates a value; reports at most FAILURES_MAX failures.
 * @param shared charged with the steps of the check, and never exceeded
 */
export type Validate = (value: unknown, shared?: StepBudget) => Failure[];

type CompiledSchema = { validate: Validate } | { problems: SchemaProblem[] };

/** Keywords of JSON Schema that are refused, and why. */
const REFUSED: ReadonlyMap<string, string> = new Map([
  ["pattern", "is not available: a regular expression may never end. Use enum, const or lengths"],
  ["patternProperties", "is not available: a regular expression may never end. Use propertyNames"],
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

/** Resolves a JSON pointer. */
const follow = (root: unknown, ref: string): unknown => {
  let value = root;
  for (const part of ref.slice(2).split("/").map(unescape)) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, part)) return undefined;
    value = (value as Json)[part];
  }
  return value;
};

const LOCAL = /^#(\/|$)/;

/** State of a running compilation. */
type Compilation = {
  root: unknown;
  problems: SchemaProblem[];
  /** Checks of referenced schemas, by reference. */
  references: Map<string, { check: Check }>;
  parts: number;
  budget: StepBudget;
};

const refuse = ({ problems }: Compilation, path: Path, message: string): undefined => {
  if (problems.length < PROBLEMS_MAX) problems.push({ path: path.join("."), message });
  return undefined;
};

/** Compiles a schema, or returns its problems. */
export const compileSchema = (root: unknown): CompiledSchema => {
  const budget = new StepBudget(COMPILE_STEPS_MAX);
  const compilation: Compilation = { root, problems: [], references: new Map(), parts: 0, budget };
  const check = compileRoot(compilation);
  const { problems } = compilation;
  return problems.length > 0
    ? { problems }
    : { validate: (value, shared) => validateWith(check, value, shared) };
};

const compileRoot = (compilation: Compilation): Check => {
  try {
    return compile(compilation, compilation.root, []);
  } catch (error) {
    if (!(error instanceof StepsExceeded)) throw error;
    compilation.problems = [{ path: "", message: `${error.message} to prepare` }];
    return REFUSE;
  }
};

const compile = (compilation: Compilation, schema: unknown, path: Path): Check => {
  const parts = ++compilation.parts;
  if (parts > SCHEMA_MAX_PARTS) {
    if (parts === SCHEMA_MAX_PARTS + 1)
      refuse(compilation, [], `holds more than ${SCHEMA_MAX_PARTS} schemas`);
    return REFUSE;
  }
  if (typeof schema === "boolean") return schema ? ACCEPT : REFUSE;
  if (!isJsonObject(schema)) {
    refuse(compilation, path, "must be a schema: an object, true or false");
    return REFUSE;
  }
  const checks = Object.keys(schema).flatMap((name) => compileKeyword(compilation, schema, name, path) ?? []);
  return (value, run) => {
    run.budget.charge(1 + checks.length);
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
  // The schemas inside an applicator are charged as they are compiled.
  if (Object.hasOwn(ASSERTIONS, name)) compilation.budget.chargeValue(schema[name]);
  else compilation.budget.charge(at.length);
  const keyword = keywordOf(name);
  if (!keyword) return refuse(compilation, at, REFUSED.get(name) ?? "is not a supported keyword");
  const place: KeywordContext = {
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
    // Registered before it is compiled, since it may refer to itself.
    references.set(ref, known);
    known.check = compile(compilation, target, path);
  }
  return (value, run) => enter(run, known.check, value);
};

const enter = (run: Run, check: Check, value: unknown): boolean => {
  if (++run.depth > REFERENCES_MAX) throw new TooDeep(`follows more than ${REFERENCES_MAX} references`);
  const holds = check(value, run);
  run.depth--;
  return holds;
};

const costOf = ({ budget }: Run, error: Error): string =>
  budget.max < STEPS_MAX
    ? `the schemas take more than ${BATCH_STEPS_MAX} steps for the events of this request; send fewer at once`
    : `the schema ${error.message}`;

const validateWith = (check: Check, value: unknown, shared?: StepBudget): Failure[] => {
  const left = shared === undefined ? STEPS_MAX : shared.max - shared.spent;
  const run = newRun(Math.min(STEPS_MAX, left));
  const { failures } = run;
  try {
    return check(value, run) ? [] : failures!;
  } catch (error) {
    if (!(error instanceof TooDeep) && !(error instanceof StepsExceeded)) throw error;
    return [{ path: "", message: `cannot be checked: ${costOf(run, error)}` }];
  } finally {
    if (shared) shared.spent += Math.min(run.budget.spent, run.budget.max);
  }
};
