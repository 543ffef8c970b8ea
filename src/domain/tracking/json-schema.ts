import { dereference, type OutputUnit, type Schema, validate } from "@cfworker/json-schema";
import { guarded, TookTooLong } from "../kernel/slices.ts";
import { isJsonObject } from "../kernel/json.ts";

/**
 * JSON Schema 2020-12 for event properties, without regular expressions and remote references: a tenant's schema
 * runs in every process that takes events, so what could take long is refused, or interrupted. The library
 * interprets schemas: one that compiles them would make a tenant's document code in a process of all tenants.
 */

/** Maximum bytes of a schema as JSON. */
export const SCHEMA_MAX_BYTES = 16 * 1024;
/** Maximum nested schemas, counted all together. */
export const SCHEMA_MAX_PARTS = 500;
/** Maximum time for the schemas of all events of one request, in ms. */
export const CHECKS_MAX_MS = 500;
/** A simple schema has no more parts: looking through 16 KiB so often takes no time that matters. */
const SIMPLE_PARTS = 50;
const DRAFT = "2020-12";
const DIALECT = "https://json-schema.org/draft/2020-12/schema";
const PROBLEMS_MAX = 20;
const FAILURES_MAX = 5;
const MESSAGE_MAX = 300;

/** A part of a schema, or of a value, that is wrong: names and indexes joined by dots, "" for the whole. */
type Problem = { path: string; message: string };

/** What is left of the time for the checks of a request. */
export type CheckTime = { leftMs: number };

/** Returns what is wrong with a value, FAILURES_MAX at most; nothing where it fits. */
export type Validate = (value: unknown, time?: CheckTime) => Problem[];

const schema = { $ref: "#" };
const schemas = { type: "array", minItems: 1, items: schema };
const named = { type: "object", additionalProperties: schema };
const number = { type: "number" };
const count = { type: "integer", minimum: 0 };
const names: Schema = { type: "array", items: { type: "string" } };
const type: Schema = { enum: ["null", "boolean", "object", "array", "number", "string", "integer"] };
const keywords = <T>(keys: string, value: T): Record<string, T> =>
  Object.fromEntries(keys.split(" ").map((key) => [key, value]));

/** What a schema may have: a keyword that is not known would be ignored silently. */
const META: Schema = {
  type: ["object", "boolean"],
  properties: {
    type: { if: { type: "array" }, ...keywords("then", { minItems: 1, items: type }), else: type },
    enum: { type: "array", minItems: 1 },
    multipleOf: { type: "number", exclusiveMinimum: 0 },
    uniqueItems: { type: "boolean" },
    required: names,
    dependentRequired: { type: "object", additionalProperties: names },
    $ref: { type: "string" },
    $schema: { const: DIALECT },
    ...keywords("minimum maximum exclusiveMinimum exclusiveMaximum", number),
    ...keywords("minLength maxLength minItems maxItems minProperties maxProperties", count),
    ...keywords("minContains maxContains", count),
    ...keywords("allOf anyOf oneOf prefixItems", schemas),
    ...keywords("$defs properties dependentSchemas", named),
    ...keywords("not if then else additionalProperties propertyNames items contains", schema),
    // `format` is an annotation, as in the dialect.
    ...keywords(
      "const $comment title description default examples deprecated readOnly writeOnly format",
      true,
    ),
  },
  additionalProperties: false,
};
const META_LOOKUP = dereference(META);

/** Keywords that are refused, and why. */
const REFUSED: Readonly<Record<string, string>> = {
  pattern: "is not available: a regular expression may never end. Use enum, const or lengths",
  patternProperties: "is not available: a regular expression may never end. Use propertyNames",
  unevaluatedItems: "is not available: use items: false",
  unevaluatedProperties: "is not available: use additionalProperties: false",
};

/** Keywords that report what a part of theirs says itself. */
const CARRIERS: ReadonlySet<string> = new Set(
  "$ref properties additionalProperties prefixItems items allOf if dependentSchemas".split(" "),
);
/** Below these, a part that does not match is no fault by itself. */
const TRIALS = /\/(anyOf|oneOf|not|contains|propertyNames)\//;
/** Names of properties, which may be called like keywords. */
const NAMES = /\/(properties|dependentSchemas|\$defs)\/[^/]*/g;

const unescape = (part: string): string =>
  decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
const pathOf = (pointer: string): string => pointer.split("/").slice(1).map(unescape).join(".");

/** The library's words, as what follows the name of a field. */
const messageOf = ({ keyword, error }: OutputUnit): string => {
  const [, quoted = ""] = /"(.*)"\.$/s.exec(error) ?? [];
  const text = error.replace(/^(Instance|String|Array|-?\d\S*) /, "").replace(/\.$/, "");
  if (keyword === "false") return "is not allowed";
  if (keyword === "required") return `must have ${quoted}`;
  if (keyword === "type")
    return `must be ${text.split('Expected "')[1]!.replaceAll('", "', " or ").replace('"', "")}`;
  if (keyword === "exclusiveMinimum") return text.replace("less", "not more");
  return text.length > MESSAGE_MAX ? `${text.slice(0, MESSAGE_MAX)}…` : text;
};

/** The library tells no place of the schema `false`. */
const isFault = ({ keyword, keywordLocation }: OutputUnit): boolean =>
  keyword === "false" || (!CARRIERS.has(keyword) && !TRIALS.test(keywordLocation.replaceAll(NAMES, "")));

/** Returns what the library reports of a value that does not fit: at least one problem. */
const problemsOf = (units: readonly OutputUnit[], max: number): Problem[] => {
  const faults = units.filter(isFault);
  return (faults.length > 0 ? faults : units)
    .slice(0, max)
    .map((unit) => ({ path: pathOf(unit.instanceLocation), message: messageOf(unit) }));
};

/** Returns what is wrong with a schema besides its references. */
const checkKeywords = (given: unknown): Problem[] => {
  const { valid, errors } = validate(given, META, DRAFT, META_LOOKUP, false);
  return valid ? [] : problemsOf(errors, PROBLEMS_MAX).map(explained);
};

const explained = ({ path, message }: Problem): Problem => {
  const keyword = path.split(".").at(-1)!;
  const known = Object.hasOwn(META.properties!, keyword);
  const reason = Object.hasOwn(REFUSED, keyword) ? REFUSED[keyword]! : "is not a supported keyword";
  return { path, message: message === "is not allowed" && !known ? reason : message };
};

/** Prepares a schema, or returns its problems. */
export const compileSchema = (given: unknown): { validate: Validate } | { problems: Problem[] } => {
  if (typeof given !== "boolean" && !isJsonObject(given))
    return { problems: [{ path: "", message: "must be a schema: an object, true or false" }] };
  try {
    const problems = checkKeywords(given);
    return problems.length > 0 ? { problems } : prepare(given as Schema);
  } catch (error) {
    return { problems: [{ path: "", message: `cannot be used: ${(error as Error).message}` }] };
  }
};

/** Whether a part refers to another one. */
const isReference = (part: boolean | Schema): part is Schema =>
  typeof part === "object" && part.$ref !== undefined;

/** Whether a part may compare everything with everything, or be applied without end. */
const isCostly = (part: boolean | Schema): boolean =>
  typeof part === "object" &&
  (part.$ref !== undefined || part.uniqueItems === true || [part.const, ...(part.enum ?? [])].some(isNested));

const isNested = (value: unknown): boolean => typeof value === "object" && value !== null;

const prepare = (given: Schema): ReturnType<typeof compileSchema> => {
  // The library adds to what it prepares, and would enforce formats, which are annotations.
  const document = structuredClone(given);
  const lookup = dereference(document);
  const parts = Object.entries(lookup);
  if (parts.length > SCHEMA_MAX_PARTS)
    return { problems: [{ path: "", message: `holds more than ${SCHEMA_MAX_PARTS} schemas` }] };
  for (const [, part] of parts) if (typeof part === "object") delete part.format;
  const lost = parts.filter(([, part]) => isReference(part) && lookup[part.__absolute_ref__!] === undefined);
  const problems = lost.map(([uri]) => ({
    path: [pathOf(new URL(uri).hash), "$ref"].filter((one) => one !== "").join("."),
    message: "must lead to a part of this schema, such as #/$defs/name",
  }));
  if (problems.length > 0) return { problems };
  const isGuarded = parts.length > SIMPLE_PARTS || parts.some(([, part]) => isCostly(part));
  return { validate: (value, time) => validateWith({ document, lookup, isGuarded }, value, time) };
};

type Prepared = { document: Schema; lookup: ReturnType<typeof dereference>; isGuarded: boolean };

const validateWith = (
  { document, lookup, isGuarded }: Prepared,
  value: unknown,
  time: CheckTime = { leftMs: CHECKS_MAX_MS },
): Problem[] => {
  const sinceMs = performance.now();
  const check = (isShort: boolean) => validate(value, document, DRAFT, lookup, isShort);
  const within = (isShort: boolean): ReturnType<typeof check> => {
    let result: ReturnType<typeof check>;
    guarded(Math.ceil(Math.max(1, time.leftMs - (performance.now() - sinceMs))), () => {
      result = check(isShort);
    });
    return result!;
  };
  try {
    if (time.leftMs <= 0) return [tooLong()];
    if ((isGuarded ? within(true) : check(true)).valid) return [];
    // Looking for all that is wrong may take far longer than for the first.
    return problemsOf(within(false).errors, FAILURES_MAX);
  } catch (error) {
    if (error instanceof TookTooLong) return [tooLong()];
    // What refers to itself for ever exhausts the stack, as does a very long list of problems.
    if (!(error instanceof RangeError)) throw error;
    return [{ path: "", message: "cannot be checked: too many references, or too many problems" }];
  } finally {
    time.leftMs -= performance.now() - sinceMs;
  }
};

const tooLong = (): Problem => ({
  path: "",
  message:
    `cannot be checked: the schemas take more than ${CHECKS_MAX_MS} ms for the events of this request; send ` +
    "fewer at once, or make them simpler",
});
