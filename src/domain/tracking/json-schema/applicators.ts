import { type Keyword, namesOf } from "./keywords.ts";
import { type Check, fail, quietly, within } from "./run.ts";
import { isJsonObject } from "../../kernel/json.ts";

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
export const APPLICATORS: Readonly<Record<string, Keyword>> = {
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
export const COMPANIONS: ReadonlySet<string> = new Set(["then", "else", "minContains", "maxContains"]);
