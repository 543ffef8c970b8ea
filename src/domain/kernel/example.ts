import { isJsonObject } from "./json.ts";
import type { Json } from "./events/events.ts";

/**
 * Examples of answers and events for whoever reads the API reference, made from the schemas: a value that
 * the name of a field suggests, else the first one that the schema allows.
 */

const MOMENT = "2026-01-31T12:00:00.000Z";
/** More characters of JSON than this only hide what the answer is about: optional fields are left out then. */
const LONG = 2_000;
/** Schemas inside of schemas; below are only those that contain themselves. */
const DEPTH_MAX = 12;

/** Values by the name of their field, the first that fits the schema. */
const BY_NAME: Readonly<Record<string, readonly unknown[]>> = {
  accessToken: ["header.payload.signature"],
  amount: [50],
  avatarUrl: ["https://example.com/ada.png"],
  category: ["learning"],
  code: ["K7WG5M"],
  content: ["Good game!"],
  country: ["GB"],
  createdBy: ["ada@example.com"],
  currencies: [{ gold: 50 }],
  currency: ["gold"],
  currencyKey: ["gold"],
  badgeKey: ["first-lesson"],
  cycleKey: ["2026-01-31"],
  displayName: ["Ada"],
  domain: ["games.example.com"],
  email: ["ada@example.com"],
  emoji: ["👍"],
  eventType: ["lesson.completed"],
  eventTypes: [["lesson.completed"]],
  expiresIn: [86_400],
  externalUserId: ["user-1"],
  hash: ["0123456789abcdef".repeat(4)],
  headHash: ["0123456789abcdef".repeat(4)],
  host: ["web-1"],
  ip: ["203.0.113.7"],
  leaderboardKey: ["weekly"],
  level: [3],
  levelName: ["Apprentice"],
  limit: [20],
  locale: ["en-GB"],
  message: ["What is wrong, in a sentence"],
  key: ["lesson-xp"],
  max: [5],
  maxLevel: [100],
  name: ["Lessons"],
  note: ["As agreed"],
  percent: [25],
  period: ["2026-W05"],
  periodKey: ["2026-W05"],
  points: [250],
  previous: [200],
  questKey: ["ten-lessons"],
  rank: [1],
  refreshToken: ["svc_rt_EXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEEXAMPLEE"],
  rewardKey: ["golden-frame"],
  ruleKey: ["lesson-xp"],
  score: [250],
  secret: ["svc_EXAMPLEEXAMPLEEXAMPLEEXAMPLE", "EXAMPLE"],
  segmentKey: ["regulars"],
  stepKey: ["lessons"],
  streakKey: ["daily-lesson"],
  tags: [["beta"]],
  target: [10],
  team: ["red", 1],
  tenantName: ["Analytical Games"],
  timezone: ["Europe/London"],
  type: ["lesson.completed"],
  url: ["https://example.com/hooks"],
  userAgent: ["Mozilla/5.0"],
  value: [95],
  version: [1],
  xp: [250],
  xpForLevel: [200],
  xpForNextLevel: [400],
};
/** Fields that say that something went wrong or is over, which is not how things usually are. */
const UNUSUAL =
  /error|fail|revoked|archived|deleted|reverted|disabled|revert|^next(Cursor)?$|stopped|reason$/i;
/** Flags that are usually set. */
const SET =
  /^(accepted|applied|available|complete|done|enabled|ok|success|valid|verified)|^is(A|Live)|Verified$/i;

const PERSON = "Ada Lovelace";

const DAY_MS = 86_400_000;
/** What ends or comes next is a day later. */
const timeOf = (name: string): string =>
  /^(expire|end|next|until|due|closes|to$)/i.test(name)
    ? new Date(Date.parse(MOMENT) + DAY_MS).toISOString()
    : MOMENT;

/** Words of a name in camel case. */
const wordsOf = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

type Schema = Json & {
  type?: string | string[];
  properties?: Record<string, Schema>;
  items?: Schema;
  pattern?: string;
  enum?: unknown[];
  required?: string[];
};

/** Where in the example a value stands: the name of its field, how deep, and a value that it may take. */
type Place = { name: string; depth: number; hint?: unknown };
const NOWHERE: Place = { name: "", depth: 0 };

const mayBeNull = ({ nullable, type, enum: values }: Schema): boolean =>
  nullable === true || [type].flat().includes("null") || (values?.includes(null) ?? false);

const exampleIn = ({ examples, example, const: only }: Schema): unknown =>
  Array.isArray(examples) ? examples[0] : (example ?? only ?? undefined);

const isEmpty = (schema: unknown): boolean => !isJsonObject(schema) || Object.keys(schema).length === 0;

/** One example; ids are numbered by the names of their fields, so that equal names are one thing. */
class Example {
  readonly #ids = new Map<string, number>();
  readonly #parts: Readonly<Record<string, Json>>;
  readonly #hints: Json;
  readonly #optionalDepth: number;

  constructor(parts: Readonly<Record<string, Json>>, hints: Json, optionalDepth: number) {
    this.#parts = parts;
    this.#hints = hints;
    this.#optionalDepth = optionalDepth;
  }

  of(given: Schema, place: Place): unknown {
    const schema = this.#resolved(given);
    const told = this.#told(schema, place);
    if (told !== undefined) return told;
    const type = schema.properties ? "object" : [schema.type ?? []].flat().find((one) => one !== "null");
    const make: Readonly<Record<string, () => unknown>> = {
      object: () => this.#object(schema, place),
      array: () => this.#list(schema, place),
      boolean: () => SET.test(place.name),
      integer: () => numberOf(schema),
      number: () => numberOf(schema),
      string: () => this.#text(schema, place.name),
    };
    if (type !== undefined) return make[type]?.();
    return mayBeNull(schema) ? null : {};
  }

  /** What a hint, the schema itself or the name of the field tells. */
  #told(schema: Schema, { name, hint }: Place): unknown {
    const fits = (value: unknown): boolean => value !== undefined && this.#fits(value, schema);
    const said = fits(hint) ? hint : exampleIn(schema);
    if (said !== undefined) return said;
    if (mayBeNull(schema) && (UNUSUAL.test(name) || schema.type === "null")) return null;
    return [schema.enum?.[0], BY_NAME[name]?.find(fits), schema["default"]].find((one) => one != null);
  }

  /** A schema with what it refers to, and the first of those that it leaves to choose. */
  #resolved(schema: Schema): Schema {
    const { $ref, allOf, anyOf, oneOf, ...own } = schema;
    if (typeof $ref === "string") {
      const target = this.#parts[$ref.slice($ref.lastIndexOf("/") + 1)];
      return this.#resolved({ ...target, ...own });
    }
    if (Array.isArray(allOf))
      return Object.assign({}, ...allOf.map((one) => this.#resolved(one as Schema)), own) as Schema;
    const choice = (anyOf ?? oneOf) as Schema[] | undefined;
    const first = choice?.find((one) => one.type !== "null" && !isDeepList(one)) ?? choice?.[0];
    if (!first) return schema;
    const isNullable = choice!.some(({ type, nullable }) => type === "null" || nullable === true);
    return { ...this.#resolved(first), ...own, ...(isNullable ? { nullable: true } : {}) };
  }

  #fits(value: unknown, schema: Schema): boolean {
    if (typeof value !== "object" || value === null) return isScalarOf(value, schema);
    const [type, inner] = Array.isArray(value)
      ? ["array", schema.items]
      : ["object", schema["additionalProperties"]];
    if (![schema.type].flat().includes(type) || schema.properties) return false;
    return (
      !isJsonObject(inner) || Object.values(value).every((one) => this.#fits(one, this.#resolved(inner)))
    );
  }

  #object(schema: Schema, { name, depth, hint }: Place): unknown {
    const { properties = {}, required = [] } = schema;
    const others = schema["additionalProperties"] as Schema;
    const isShown = ([key, value]: [string, Schema]): boolean =>
      required.includes(key) || (depth < this.#optionalDepth && value["not"] === undefined);
    if (depth > DEPTH_MAX) return {};
    const ofPerson = "email" in properties && { name: PERSON };
    const hints: Json = { ...ofPerson, ...(depth <= 2 && this.#hints), ...(isJsonObject(hint) && hint) };
    const fields = Object.entries(properties)
      .filter(isShown)
      .map(([key, value]) => [key, this.of(value, { name: key, depth: depth + 1, hint: hints[key] })]);
    if (fields.length > 0 || isEmpty(others)) return Object.fromEntries(fields);
    return { [/currenc/i.test(name) ? "gold" : "key"]: this.of(others, { ...NOWHERE, depth: depth + 1 }) };
  }

  #list(schema: Schema, { name, depth, hint }: Place): unknown[] {
    const { items } = schema;
    const least = Number(schema["minItems"] ?? 0);
    const isPlain = isEmpty(items);
    if (least === 0 && (isPlain || depth > Math.min(this.#optionalDepth, DEPTH_MAX))) return [];
    const hints = Array.isArray(hint) ? (hint as unknown[]) : [];
    const inner = { name: name.replace(/s$/, ""), depth: depth + 1 };
    return Array.from({ length: Math.max(1, least) }, (_, at) =>
      this.of(items ?? {}, { ...inner, hint: hints[at] }),
    );
  }

  #text(schema: Schema, name: string): string {
    switch (schema["format"]) {
      case "uuid":
        if (!this.#ids.has(name)) this.#ids.set(name, this.#ids.size + 1);
        return `0197c2a0-0000-7000-8000-${String(this.#ids.get(name)).padStart(12, "0")}`;
      case "date-time":
        return timeOf(name);
      case "date":
        return MOMENT.slice(0, 10);
      case "email":
        return "ada@example.com";
      case "uri":
        return "https://example.com/";
      default:
        return textsOf(name).find((one) => isText(one, schema)) ?? "";
    }
  }
}

const textsOf = (name: string): string[] => [
  /url$/i.test(name) ? "https://example.com/" : `the ${wordsOf(name || "value").trim()}`,
  "gold",
  "xp",
];

const isText = (text: string, { pattern, minLength = 0, maxLength = Infinity }: Schema): boolean =>
  text.length >= Number(minLength) &&
  text.length <= Number(maxLength) &&
  (pattern === undefined || new RegExp(pattern, "u").test(text));

const isScalarOf = (value: unknown, schema: Schema): boolean => {
  const types = [schema.type ?? []].flat();
  if (schema.enum) return schema.enum.includes(value);
  if (typeof value === "string")
    return types.includes("string") && !schema["format"] && isText(value, schema);
  if (typeof value !== "number") return types.includes(typeof value);
  return (types.includes("number") || types.includes("integer")) && numberOf(schema, value) === value;
};

/** The wanted number, or the nearest that the schema allows. */
const numberOf = (schema: Schema, wanted = 1): number => {
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum } = schema as Record<string, unknown>;
  const isExclusive = exclusiveMinimum === true;
  const least = typeof exclusiveMinimum === "number" ? exclusiveMinimum : Number(minimum);
  const above = isExclusive || typeof exclusiveMinimum === "number" ? least + 1 : least;
  return Math.max(above, Math.min(Number(maximum), wanted));
};

/** A list of lists or of anything, which tells less than what else there is to choose. */
const isDeepList = ({ type, items }: Schema): boolean => type === "array" && items?.type === "array";

/**
 * Returns a plausible value of a schema.
 * @param schema JSON Schema, or a schema of OpenAPI 3.0
 * @param parts what its `$ref`s lead to, by the last part of their name
 * @param hints values that fields of the same name take where they fit
 */
export const exampleOf = (
  schema: Json,
  parts: Readonly<Record<string, Json>> = {},
  hints: Json = {},
): unknown => {
  let example: unknown;
  for (const depth of [6, 4, 3, 2, 1, 0]) {
    example = new Example(parts, hints, depth).of(schema, { ...NOWHERE, hint: hints });
    if (JSON.stringify(example).length <= LONG) break;
  }
  return example;
};
