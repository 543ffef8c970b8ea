import { Ajv, type ErrorObject, type ValidateFunction } from "ajv";
import addFormats from "ajv-formats";

type Node = Record<string, unknown>;
type Document = { paths?: object; components?: object };

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** OpenAPI 3.0 marks a bound as exclusive, JSON Schema states the exclusive bound. */
const exclusiveBounds = (schema: Node): Node => {
  const { exclusiveMinimum, exclusiveMaximum, ...rest } = schema;
  if (exclusiveMinimum === true)
    Object.assign(rest, { minimum: undefined, exclusiveMinimum: rest["minimum"] });
  if (exclusiveMaximum === true)
    Object.assign(rest, { maximum: undefined, exclusiveMaximum: rest["maximum"] });
  return Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
};

/**
 * Undocumented fields are a leak or a gap in the documentation; parts of an `allOf` cannot know one
 * another's.
 */
const closed = (schema: Node, isPart: boolean): Node =>
  isPart || !isNode(schema["properties"]) || "additionalProperties" in schema
    ? schema
    : { ...schema, additionalProperties: false };

/** What these hold is data or names of the API's own, not schema keywords. */
const DATA = new Set(["enum", "example", "default", "required"]);
const NAMED = new Set(["properties", "schemas", "responses", "paths", "content", "headers", "parameters"]);

const convertPart = (name: string, item: unknown): unknown => {
  if (DATA.has(name)) return item;
  if (NAMED.has(name) && isNode(item)) {
    return Object.fromEntries(Object.entries(item).map(([key, value]) => [key, toJsonSchema(value)]));
  }
  return toJsonSchema(item, name === "allOf" && Array.isArray(item) && item.length > 1);
};

/** The same schema (or document of schemas) for a JSON Schema validator, with objects closed. */
const toJsonSchema = (value: unknown, isPart = false): unknown => {
  if (Array.isArray(value)) return value.map((item) => toJsonSchema(item, isPart));
  if (!isNode(value)) return value;
  const { nullable, ...schema } = value;
  const parts = Object.entries(schema).map(([name, item]) => [name, convertPart(name, item)]);
  const result = closed(exclusiveBounds(Object.fromEntries(parts) as Node), isPart);
  return nullable === true ? { anyOf: [result, { type: "null" }] } : result;
};

type Responses = Record<string, { $ref?: string; content?: object }>;
/** A template of the document, and the methods that it has. */
type Template = { template: string; names: readonly string[]; methods: object };
type Checker = {
  ajv: Ajv;
  validators: Map<string, ValidateFunction>;
  document: Document;
  /** By the number of segments; those with the fewest parameters first. */
  templates: ReadonlyMap<number, readonly Template[]>;
};
const checkers = new WeakMap<Document, Checker>();

const checkerOf = (document: Document): Checker => {
  const known = checkers.get(document);
  if (known) return known;
  const ajv = new Ajv({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema({ $id: "laurel:", ...(toJsonSchema(document) as Node) });
  const templates = templatesOf(document);
  const checker = { ajv, validators: new Map<string, ValidateFunction>(), document, templates };
  checkers.set(document, checker);
  return checker;
};

/** The path of an address as the document writes it: no origin, prefix or query. */
const barePath = (url: string): string =>
  new URL(url, "http://localhost").pathname.replace(/^\/(api\/)?v1(?=\/)/, "").replace(/(?<=.)\/$/, "");

const templatesOf = ({ paths = {} }: Document): Checker["templates"] => {
  const all = Object.entries(paths).map(([template, methods]: [string, object]) => ({
    template,
    names: template.split("/"),
    methods,
  }));
  const parameters = ({ template }: Template) => template.split("{").length;
  return Map.groupBy(
    all.toSorted((a, b) => parameters(a) - parameters(b)),
    ({ names }) => names.length,
  );
};

const templateOf = ({ templates }: Checker, path: string, method: string): string | undefined => {
  const parts = path.split("/");
  return templates
    .get(parts.length)
    ?.find(
      ({ template, names, methods }) =>
        method in methods &&
        (template === path || names.every((name, at) => name.startsWith("{") || name === parts[at])),
    )?.template;
};

const pointer = (...parts: string[]): string =>
  parts.map((part) => `/${encodeURIComponent(part.replaceAll("~", "~0").replaceAll("/", "~1"))}`).join("");

const responsesOf = ({ paths }: Document, template: string, method: string): Responses =>
  (paths as Record<string, Record<string, { responses: Responses }>>)[template]?.[method]?.responses ?? {};

/** A file of another type than JSON, which no schema describes. */
const anything = Object.assign((_body: unknown) => true, { errors: null });
const isOther = (type: string): boolean => type !== "application/json";

const nothing = Object.assign((body: unknown) => body === undefined, { errors: null });

// oxlint-disable-next-line max-params -- reads like the exchange it checks
const validatorOf = (
  checker: Checker,
  template: string,
  method: string,
  status: number,
  body: unknown,
): ValidateFunction | typeof nothing | typeof anything => {
  const response = responsesOf(checker.document, template, method)[status];
  if (response === undefined) {
    throw new Error(
      `${method.toUpperCase()} ${template} answered ${status}, which its route's \`errors\` do not list`,
    );
  }
  // A redirect has no body.
  if (response.$ref === undefined && response.content === undefined) return nothing;
  if (typeof body === "string" && Object.keys(response.content ?? {}).some(isOther)) return anything;
  const at = response.$ref?.slice(1) ?? pointer("paths", template, method, "responses", String(status));
  const ref = `laurel:#${at}${pointer("content", "application/json", "schema")}`;
  let validator = checker.validators.get(ref);
  if (!validator) checker.validators.set(ref, (validator = checker.ajv.compile({ $ref: ref })));
  return validator;
};

const describeError = ({ instancePath, message, params }: ErrorObject): string =>
  `  ${instancePath || "body"} ${message ?? ""} ${JSON.stringify(params)}`;

/**
 * Holds an answer against the OpenAPI document: the operation and the status must be in it, the body must fit
 * the schema, and no field may be undocumented. `target` is an address (with or without origin, prefix and
 * query) or a path template.
 * @throws Error that names the operation and every deviation
 */
// oxlint-disable-next-line max-params -- reads like the exchange it checks
export const checkResponse = (
  document: Document,
  method: string,
  target: string,
  status: number,
  body: unknown,
): void => {
  const verb = method.toLowerCase();
  const path = target.includes("{") ? target : barePath(target);
  const checker = checkerOf(document);
  const template = templateOf(checker, path, verb);
  if (template === undefined) throw new Error(`${method} ${path} is not in the OpenAPI document`);
  const validate = validatorOf(checker, template, verb, status, body);
  if (validate(body)) return;
  const problems = (validate.errors ?? []).map(describeError).join("\n");
  throw new Error(
    `${method} ${template} answered ${status} with a body that is not as documented:\n${problems}`,
  );
};
