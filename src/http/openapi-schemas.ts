import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import type { Json } from "../domain/kernel/events/events.ts";
import { exampleOf } from "../domain/kernel/example.ts";
import { isJsonObject } from "../domain/kernel/json.ts";
import { JSON_TYPE, NAMES } from "./openapi-components.ts";

/** Schemas of a document by name. */
type Parts = Record<string, Json>;
type Media = { schema?: Json; example?: unknown };
type Body = { content?: Record<string, Media> };
/** What they read of an operation. */
type Operation = {
  operationId: string;
  parameters?: { name?: string; schema?: Json }[];
  requestBody?: Body;
  responses: Record<string, Body>;
};
/** What the passes over a document read of it. */
export type ToName = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Parts; responses?: Json };
};

const REF = "#/components/schemas/";
/** What a place says of a schema, besides what the schema itself is. */
const OF_PLACE: ReadonlySet<string> = new Set(["description", "default", "example", "deprecated"]);

const refTo = (name: string): { $ref: string } => ({ $ref: REF + name });
const isRef = (schema: Json): schema is { $ref: string } => typeof schema["$ref"] === "string";
/** Returns the name of the component that a reference leads to. */
const targetOf = ({ $ref }: { $ref: string }): string => $ref.slice(REF.length);
/** Returns whether a schema has several values to choose from. */
const isEnum = ({ enum: values }: Json): boolean => Array.isArray(values) && values.length > 1;
const isObject = ({ properties }: Json): boolean => isJsonObject(properties);

/** Splits what a place says from what the schema is. */
const splitPlace = (schema: Json): { own: Json; said: Json } => {
  const [own, said]: [Json, Json] = [{}, {}];
  for (const [key, value] of Object.entries(schema)) (OF_PLACE.has(key) ? said : own)[key] = value;
  return { own, said };
};

/** Returns the only value that a required property may have. */
const constantOf = ({ properties, required }: Json, name: string): unknown => {
  const { enum: values } = ((properties as Json)[name] ?? {}) as { enum?: unknown[] };
  const isRequired = Array.isArray(required) && required.includes(name);
  return isRequired && values?.length === 1 ? values[0] : undefined;
};

/** Returns the property by whose value the members of a union are told apart. */
const discriminatorOf = (members: readonly Json[]): string | undefined => {
  const [first] = members;
  if (!first || members.length < 2 || !members.every(isObject)) return undefined;
  return Object.keys(first["properties"] as Json).find((name) => {
    const values = new Set(members.map((member) => constantOf(member, name)));
    return values.size === members.length && !values.has(undefined);
  });
};

const isNull = ({ nullable, enum: values }: Json): boolean =>
  nullable === true && Array.isArray(values) && values.every((value) => value === null);

const withoutCopies = (members: readonly Json[]): Json[] =>
  members.filter((one, i) => members.findIndex((other) => isDeepStrictEqual(one, other)) === i);

/** A union with null is one of which a member may be null; a union of one is that one. */
const simpleUnion = (schema: Json, keyword: string): Json => {
  const { [keyword]: given, ...rest } = schema;
  const members = withoutCopies((given as Json[]).filter((one) => !isNull(one)));
  const isNullable = (given as Json[]).some(isNull) || rest["nullable"] === true;
  const [only] = members;
  if (members.length === 1 && only) {
    const alone = isRef(only) ? { allOf: [only] } : only;
    return { ...alone, ...rest, ...(isNullable ? { nullable: true } : {}) };
  }
  const at = isNullable ? members.findIndex((one) => one["type"] !== undefined) : -1;
  if (at >= 0) members[at] = { ...members[at], nullable: true };
  const { nullable: _nullable, ...others } = rest;
  return { ...(at >= 0 ? others : rest), [keyword]: members };
};

const isPlain = (schema: Json): boolean => Object.keys(schema).length === 1;

/** Rewrites what tools for OpenAPI 3.0 stumble over; to be applied to the schemas inside first. */
const simple = (schema: Json): Json => {
  if (Array.isArray(schema["anyOf"])) return simpleUnion(schema, "anyOf");
  const { allOf, ...rest } = schema as Json & { allOf?: Json[] };
  const [only] = allOf ?? [];
  if (!only || allOf!.length > 1) return schema;
  if (isPlain(schema)) return only;
  return isRef(only) ? schema : { ...only, ...rest };
};

/** Applies `change` to a schema and all schemas in it, the innermost first. */
const deeply = (schema: Json, change: (schema: Json) => Json): Json => {
  if (isRef(schema)) return change(schema);
  const inner = { ...schema };
  const go = (one: unknown): unknown => (isJsonObject(one) ? deeply(one, change) : one);
  for (const key of ["items", "additionalProperties", "not"]) if (key in inner) inner[key] = go(inner[key]);
  for (const key of ["oneOf", "anyOf", "allOf"])
    if (Array.isArray(inner[key])) inner[key] = (inner[key] as unknown[]).map(go);
  if (isJsonObject(inner["properties"]))
    inner["properties"] = Object.fromEntries(
      Object.entries(inner["properties"]).map(([name, one]) => [name, go(one)]),
    );
  return change(inner);
};

/** Applies `change` to all schemas of a document, in place. */
const everywhere = ({ paths, components: { schemas } }: ToName, change: (schema: Json) => Json): void => {
  for (const [name, schema] of Object.entries(schemas)) schemas[name] = deeply(schema, change);
  const media = ({ content = {} }: Body) => Object.values(content);
  for (const operation of Object.values(paths).flatMap((item) => Object.values(item))) {
    const bodies = [...Object.values(operation.responses), operation.requestBody ?? {}].flatMap(media);
    for (const holder of [...bodies, ...(operation.parameters ?? [])])
      if (holder.schema) holder.schema = deeply(holder.schema, change);
  }
};

export const simplify = (document: ToName): void => everywhere(document, simple);

/** Makes the component that is another one or null. */
const orNull = (name: string, schemas: Parts): string => {
  const nullable = `${name}OrNull`;
  if (schemas[nullable]) return nullable;
  const { nullable: _nullable, ...schema } = schemas[name] ?? {};
  schemas[nullable] = {};
  const keyword = ["oneOf", "anyOf"].find((one) => Array.isArray(schema[one]));
  const { enum: values } = schema;
  if (Array.isArray(values)) {
    // Without a type: tools that read `nullable` beside a list of values do not agree who adds null to it.
    const { type: _type, ...choice } = schema;
    schemas[nullable] = { ...choice, enum: [...(values as unknown[]), null] };
  } else if (keyword === undefined) schemas[nullable] = { ...schema, nullable: true };
  else {
    const [first, ...others] = schema[keyword] as Json[];
    const changed = isRef(first!) ? refTo(orNull(targetOf(first), schemas)) : { ...first, nullable: true };
    const { discriminator: _discriminator, type: _type, ...rest } = schema;
    schemas[nullable] = { ...rest, [keyword]: [changed, ...others] };
  }
  return nullable;
};

/**
 * OpenAPI 3.0 knows null only beside a type, and nothing beside a reference: a reference that may be null
 * leads to a component of its own, and what is said of the place stands in an `allOf`.
 */
export const settle = (document: ToName): void => {
  const { schemas } = document.components;
  everywhere(document, (schema) => {
    const { allOf, nullable, ...said } = schema as Json & { allOf?: Json[]; nullable?: boolean };
    const [only] = allOf ?? [];
    if (!only || allOf!.length > 1 || !isRef(only)) return schema;
    const ref = nullable === true ? refTo(orNull(targetOf(only), schemas)) : only;
    return Object.keys(said).length === 0 ? ref : { allOf: [ref, said] };
  });
};

/** Returns the components of a kind that a value refers to. */
const referred = (value: unknown, kind: string): Set<string> =>
  new Set(
    [...JSON.stringify(value).matchAll(new RegExp(`"#/components/${kind}/([^"]+)"`, "g"))].map(
      ([, name]) => name!,
    ),
  );

/** As `referred`, with the schemas that those refer to. */
const reached = (value: unknown, schemas: Parts): Set<string> => {
  const names = referred(value, "schemas");
  for (const name of names) for (const inner of referred(schemas[name] ?? {}, "schemas")) names.add(inner);
  return names;
};

/** Answers may have more fields in the next version: what no request has is not closed to others. */
export const openAnswers = ({ paths, components: { schemas } }: ToName): void => {
  const operations = Object.values(paths).flatMap((item) => Object.values(item));
  const asked = operations.map(({ requestBody, parameters }) => [requestBody, parameters]);
  const closed = reached(asked, schemas);
  const open = (schema: Json): Json => {
    const { additionalProperties: others, ...rest } = schema;
    return others === false ? rest : schema;
  };
  for (const [name, schema] of Object.entries(schemas))
    if (!closed.has(name)) schemas[name] = deeply(schema, open);
};

/** Takes away the components that nothing refers to. */
export const dropUnused = ({ paths, components }: ToName): void => {
  const { schemas, responses = {} } = components;
  const answers = referred(paths, "responses");
  for (const name of Object.keys(responses)) if (!answers.has(name)) delete responses[name];
  const used = reached([paths, responses], schemas);
  for (const name of Object.keys(schemas)) if (!used.has(name)) delete schemas[name];
};

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

/** An example of a body that says more than its schema alone. */
const exampleOfBody = ({ schema, example }: Media, schemas: Parts): unknown =>
  example ??
  schema?.["example"] ??
  (schema && isRef(schema) ? schemas[targetOf(schema)]?.["example"] : undefined);

/** What a body of the path says, or of the path above it, whose answers are about the same thing. */
const hintsAt = ({ paths, components: { schemas } }: ToName, path: string): Json => {
  for (let at = path; at !== ""; at = at.slice(0, at.lastIndexOf("/"))) {
    const { post, put } = paths[at] ?? {};
    const example = exampleOfBody((post ?? put)?.requestBody?.content?.[JSON_TYPE] ?? {}, schemas);
    if (isJsonObject(example)) return example;
  }
  return {};
};

/** Gives each body that has none, and each success that has a body of JSON, an example. */
export const addExamples = (document: ToName): void => {
  const { schemas } = document.components;
  for (const [path, operations] of Object.entries(document.paths)) {
    const hints = hintsAt(document, path);
    for (const { requestBody, responses } of Object.values(operations)) {
      for (const media of Object.values(requestBody?.content ?? {}))
        media.example = exampleOfBody(media, schemas) ?? exampleOf(media.schema ?? {}, schemas);
      for (const media of successesOf(responses))
        media.example = exampleOf(media.schema ?? {}, schemas, hints);
    }
  }
};

const successesOf = (responses: Operation["responses"]): Media[] =>
  Object.entries(responses).flatMap(([status, { content }]) =>
    status < "300" && content?.[JSON_TYPE] ? [content[JSON_TYPE]] : [],
  );
