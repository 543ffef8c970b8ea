import assert from "node:assert/strict";
import { openApiDocument } from "../../src/http/openapi.ts";
import type { AnyRoute } from "../../src/http/route.ts";
import { routes } from "../../src/http/routes.ts";
import { checkResponse } from "../support/http/openapi-check.ts";

/** What the tests read of a schema, or of whatever else is somewhere in the document. */
type Part = {
  $ref?: string;
  enum?: unknown[];
  items?: Part;
  properties?: Record<string, Part>;
  required?: string[];
  allOf?: Part[];
  anyOf?: Part[];
  oneOf?: Part[];
  discriminator?: { propertyName: string; mapping: Record<string, string> };
  example?: unknown;
  schema?: Part;
};
type Media = { schema: Part; example?: unknown };
type Described = {
  requestBody?: { required?: boolean; content: Record<string, Media> };
  responses: Record<string, { content?: Record<string, Media> }>;
};
type Document = {
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Record<string, Part> };
};

const document = JSON.parse(JSON.stringify(openApiDocument(routes))) as Document;
const { paths } = document;
const { schemas } = document.components;

/** Rules that a place breaks if what is there has no name. */
const UNNAMED: readonly ((value: Part, path: string) => boolean)[] = [
  ({ enum: values }, path) => Array.isArray(values) && values.length > 1 && !/^schemas\.\w+$/.test(path),
  ({ items }) => items?.properties !== undefined,
  ({ discriminator, oneOf = [] }) => Boolean(discriminator) && !oneOf.every((one) => "$ref" in one),
  ({ schema }, path) => path.endsWith("application/json") && schema?.properties !== undefined,
];
const DATA = new Set(["example", "default", "enum"]);

const unnamedIn = (value: unknown, path: string): string[] => {
  if (value === null || typeof value !== "object") return [];
  const inside = Object.entries(value).filter(([key]) => !DATA.has(key));
  return [
    ...(UNNAMED.some((isUnnamed) => isUnnamed(value, path)) ? [path] : []),
    ...inside.flatMap(([key, inner]) => unnamedIn(inner, `${path}.${key}`)),
  ];
};

const operationOf = (path: string, method: string): Described => paths[path]![method]!;
/** The schema that a reference leads to. */
const schemaOf = ({ $ref = "" }: Part): Part | undefined => schemas[$ref.split("/").at(-1)!];

const exampleOf = ({ path, method, takesForm }: AnyRoute): unknown => {
  const type = takesForm ? "application/x-www-form-urlencoded" : "application/json";
  const media = operationOf(path, method).requestBody?.content[type];
  return media && (media.example ?? schemaOf(media.schema)?.example);
};

const codes = (path: string, method: string): string[] =>
  Object.keys(operationOf(path, method).responses).filter((status) => status >= "400");

describe("the parts of the OpenAPI document", () => {
  it("have names: enumerations, bodies, items of lists, members that a property tells apart", () => {
    assert.deepEqual([...unnamedIn(schemas, "schemas"), ...unnamedIn(paths, "paths")], []);
    const actions = schemas["Rule"]?.properties?.["draft"]?.properties?.["actions"]?.items;
    assert.equal(actions?.discriminator?.propertyName, "type");
    assert.equal(actions.discriminator.mapping["grant_xp"], "#/components/schemas/RuleActionGrantXp");
  });

  it("are named by what they are, not by where they are met first", () => {
    const written = schemas["CreateRuleRequest"]?.properties?.["actions"]?.items;
    assert.equal(written?.discriminator?.mapping["grant_xp"], "#/components/schemas/NewRuleActionGrantXp");
    assert.deepEqual(
      Object.keys(schemas).filter((name) => /^ConfigDocument(.+)\1|^List.*Order$/.test(name)),
      [],
    );
  });

  it("are bodies with an example, which the operation accepts", async () => {
    for (const route of routes.filter(({ body }) => body !== undefined)) {
      const example = exampleOf(route);
      assert(example !== undefined, `${route.id} has no example`);
      const bodies = route.readBody ? [] : [route.body, route.described ?? route.body];
      for (const schema of bodies) {
        const read: { error?: Error } = await schema.safeParseAsync(example);
        assert.equal(read.error?.message, undefined, route.id);
      }
    }
  });

  it("are answers with an example, which is as the answer is documented", () => {
    for (const route of routes) {
      for (const [status, { content }] of Object.entries(operationOf(route.path, route.method).responses)) {
        const media = content?.["application/json"];
        if (status >= "300" || !media) continue;
        assert.notEqual(media.example, undefined, `${route.id} has no example`);
        checkResponse(document, route.method, route.path, Number(status), media.example);
      }
    }
  });

  it("are items of batches that are checked one by one, and an event with type and player", () => {
    const itemsOf = (name: string, list: string) => schemas[name]?.properties?.[list]?.items?.$ref;
    assert.equal(operationOf("/events", "post").requestBody?.required, true);
    assert.equal(operationOf("/auth/ws-token", "post").requestBody?.required, true);
    const required = schemas["NewSingleEvent"]?.allOf
      ?.slice(1)
      .map(({ anyOf = [] }) => anyOf.map((one) => one.required));
    assert.deepEqual(required, [
      [["eventType"], ["name"]],
      [["externalUserId"], ["playerId"]],
    ]);
    assert.equal(itemsOf("TrackEventsRequest", "events"), "#/components/schemas/NewEvent");
    assert.equal(itemsOf("SubmitScoresRequest", "scores"), "#/components/schemas/NewScore");
  });

  it("are the errors that an operation can have, and no others", () => {
    assert.deepEqual(codes("/limits", "get"), ["400", "403", "429", "500", "503"]);
    const ofReading = ["400", "401", "403", "404", "409", "429", "500", "503"];
    assert.deepEqual(codes("/players/{playerId}", "get"), ofReading);
    assert(codes("/auth/login", "post").includes("401"));
    assert(!codes("/players/{playerId}", "patch").includes("422"));
    assert(codes("/players", "post").includes("422"));
  });
});
