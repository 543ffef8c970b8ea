import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import type { Json } from "../domain/kernel/events/events.ts";
import { isJsonObject } from "../domain/kernel/json.ts";
import { JSON_TYPE } from "./openapi-components.ts";
import {
  constantOf,
  discriminatorOf,
  isEnum,
  isObject,
  isRef,
  type Operation,
  type Parts,
  refTo,
  splitPlace,
  targetOf,
  type ToName,
} from "./openapi-schemas.ts";
import { NAMES } from "./openapi-text.ts";

/** `weekly_score` is `WeeklyScore`, `listRules` is `ListRules`. */
const pascal = (text: string): string =>
  text.replaceAll(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9])/g, (_all, letter: string) => letter.toUpperCase());

/** `NOT_HELD` is `NotHeld`. */
const ofValue = (value: unknown): string => pascal(String(value).toLowerCase());
const singular = (text: string): string => text.replace(/ies$/, "y").replace(/(?<=[^s])s$/, "");

const mapValues = (of: Json, map: (value: Json, key: string) => Json): Json =>
  Object.fromEntries(Object.entries(of).map(([key, value]) => [key, map(value as Json, key)]));

const pageOf = ({ properties }: Json): string | undefined => {
  const { data, pagination } = (properties ?? {}) as { data?: { items?: Json }; pagination?: Json };
  if (!data?.items || !pagination || !isRef(data.items)) return undefined;
  const isByPage = "page" in ((pagination["properties"] ?? {}) as Json);
  return `${targetOf(data.items)}${isByPage ? "Page" : "Slice"}`;
};

const rankOf = (name: string): number => (name === "ConfigDocument" ? 2 : Number(name.endsWith("Output")));

/** Returns the name of a part: NAMES has some that are better than those made of the place. */
const nameOf = (proposal: string): string => {
  const prefix = Object.keys(NAMES).find((one) => proposal.startsWith(one));
  return prefix === undefined ? proposal : NAMES[prefix] + proposal.slice(prefix.length);
};

/** Makes components of the parts of a document; `schemas` are its components, and grow. */
class Namer {
  readonly #schemas: Parts;
  /** Names of shared parts, by their JSON and their description. */
  readonly #shared = new Map<string, string>();

  constructor(schemas: Parts) {
    this.#schemas = schemas;
  }

  put(proposal: string, schema: Json): string {
    const name = nameOf(proposal);
    const other = this.#schemas[name];
    const isFree = other === undefined || isDeepStrictEqual(other, schema);
    assert(isFree, `two schemas are named ${name}: give one of them another name in NAMES`);
    this.#schemas[name] = schema;
    return name;
  }

  /**
   * Equal parts are one component. A part that has a description is another than one that has another; one
   * that has none may be any of them.
   */
  share(proposal: string, schema: Json): Json {
    const { own, said } = splitPlace(schema);
    const { description, ...rest } = said;
    const text = JSON.stringify([own, rest]);
    const described = description === undefined ? text : `${text}${JSON.stringify(description)}`;
    const known = this.#shared.get(described) ?? this.#adopt(text, description);
    const name = known ?? this.put(this.#freeName(proposal, { ...own, ...said }), { ...own, ...said });
    this.#shared.set(described, name);
    if (!this.#shared.has(text)) this.#shared.set(text, name);
    return refTo(name);
  }

  /** Describes a component that had no description before. */
  #adopt(text: string, description: unknown): string | undefined {
    const name = this.#shared.get(text);
    if (name === undefined || this.#schemas[name]!["description"] !== undefined) return undefined;
    this.#schemas[name] = { ...this.#schemas[name], description };
    return name;
  }

  /** A further part of a name, which has another description or default, gets a number. */
  #freeName(proposal: string, schema: Json): string {
    const name = nameOf(proposal);
    for (let n = 1; ; n++) {
      const wanted = n === 1 ? name : `${name}${n}`;
      const other = this.#schemas[wanted];
      if (other === undefined || isDeepStrictEqual(other, schema)) return wanted;
    }
  }

  walk(schema: Json, name: string): Json {
    if (isRef(schema)) return schema;
    const walked = { ...schema };
    const { properties, items, additionalProperties: values } = schema;
    if (isJsonObject(properties))
      walked["properties"] = mapValues(properties, (one, key) => this.part(one, name + pascal(key)));
    if (isJsonObject(items)) walked["items"] = this.item(items, singular(name));
    if (isJsonObject(values)) walked["additionalProperties"] = this.part(values, `${name}Value`);
    for (const keyword of ["oneOf", "anyOf", "allOf"]) {
      const members = schema[keyword];
      if (Array.isArray(members)) Object.assign(walked, this.#members(members as Json[], keyword, name));
    }
    return walked;
  }

  /** An enumeration gets a name wherever it is. */
  part(schema: Json, name: string): Json {
    const walked = this.walk(schema, name);
    if (!isEnum(walked)) return walked;
    const { nullable, ...rest } = walked;
    const shared = this.share(name, rest);
    return nullable === true ? { allOf: [shared], nullable: true } : shared;
  }

  /** Items of a list get one if they are objects. */
  item(schema: Json, name: string): Json {
    const walked = this.part(schema, name);
    return isObject(walked) ? this.share(name, walked) : walked;
  }

  /** Members that a property tells apart get the names of its values. */
  #members(members: readonly Json[], keyword: string, name: string): Json {
    const objects = members.map((one) => (isRef(one) ? (this.#schemas[targetOf(one)] ?? {}) : one));
    const propertyName = discriminatorOf(objects);
    if (propertyName === undefined) return { [keyword]: members.map((one) => this.part(one, name)) };
    const named = members.map((one, i) => {
      const value = String(constantOf(objects[i]!, propertyName));
      return [value, this.item(one, name + ofValue(value))] as const;
    });
    const mapping = Object.fromEntries(named.map(([value, { $ref }]) => [value, $ref]));
    return { [keyword]: named.map(([, ref]) => ref), discriminator: { propertyName, mapping } };
  }

  /** A body gets a name of its own; a page, that of its items. */
  body(content: { schema?: Json } | undefined, name: string): void {
    if (content?.schema === undefined || isRef(content.schema)) return;
    const walked = this.walk(content.schema, name);
    content.schema = isRef(walked) ? walked : refTo(this.put(pageOf(walked) ?? name, walked));
  }
}

const nameOperation = (
  namer: Namer,
  { operationId, requestBody, responses, parameters }: Operation,
): void => {
  const name = pascal(operationId);
  namer.body(requestBody?.content?.[JSON_TYPE], `${name}Request`);
  for (const [status, { content }] of Object.entries(responses))
    if (status < "300") namer.body(content?.[JSON_TYPE], `${name}Answer`);
  for (const parameter of parameters ?? []) {
    const { name: of = "", schema } = parameter;
    if (schema) parameter.schema = namer.part(schema, name + pascal(of));
  }
};

/**
 * Gives a name to everything that generated code needs a type for: bodies, items of lists, members of unions,
 * enumerations. They become components; `document` is changed in place.
 */
export const nameParts = ({ paths, components: { schemas } }: ToName): void => {
  const namer = new Namer(schemas);
  // What an export holds has the names of what it holds.
  const inOrder = Object.entries(schemas).toSorted(([a], [b]) => rankOf(a) - rankOf(b));
  for (const [name, schema] of inOrder) schemas[name] = namer.walk(schema, name);
  for (const operation of Object.values(paths).flatMap((item) => Object.values(item)))
    nameOperation(namer, operation);
};
