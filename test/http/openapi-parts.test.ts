import assert from "node:assert/strict";
import { openApiDocument } from "../../src/http/openapi.ts";
import type { AnyRoute } from "../../src/http/route.ts";
import { routes } from "../../src/http/routes.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- read in many shapes
type Any = any;

const { paths, components }: Any = JSON.parse(JSON.stringify(openApiDocument(routes)));

/** Rules that a place breaks if what is there has no name. */
const UNNAMED: readonly ((value: Any, path: string) => boolean)[] = [
  ({ enum: values }, path) => Array.isArray(values) && values.length > 1 && !/^schemas\.\w+$/.test(path),
  ({ items }) => items?.properties !== undefined,
  ({ discriminator, oneOf = [] }) => Boolean(discriminator) && !oneOf.every((one: object) => "$ref" in one),
  ({ schema }, path) => path.endsWith("application/json") && schema.properties !== undefined,
];
const DATA = new Set(["example", "default", "enum"]);

const unnamedIn = (value: Any, path: string): string[] => {
  if (value === null || typeof value !== "object") return [];
  const inside = Object.entries(value).filter(([key]) => !DATA.has(key));
  return [
    ...(UNNAMED.some((isUnnamed) => isUnnamed(value, path)) ? [path] : []),
    ...inside.flatMap(([key, inner]) => unnamedIn(inner, `${path}.${key}`)),
  ];
};

const exampleOf = ({ path, method }: AnyRoute): unknown => {
  const media = paths[path][method].requestBody?.content["application/json"];
  return media && (media.example ?? components.schemas[media.schema.$ref.split("/").at(-1)].example);
};

const codes = (path: string, method: string): string[] =>
  Object.keys(paths[path][method].responses).filter((status) => status >= "400");

describe("the parts of the OpenAPI document", () => {
  it("have names: enumerations, bodies, items of lists, members that a property tells apart", () => {
    assert.deepEqual([...unnamedIn(components.schemas, "schemas"), ...unnamedIn(paths, "paths")], []);
    const { discriminator } = components.schemas.Rule.properties.draft.properties.actions.items;
    assert.equal(discriminator.propertyName, "type");
    assert.equal(discriminator.mapping.grant_xp, "#/components/schemas/RuleActionGrantXp");
  });

  it("are bodies with an example, which the operation accepts", async () => {
    for (const route of routes.filter(({ body }) => body !== undefined)) {
      const example = exampleOf(route);
      assert(example !== undefined, `${route.id} has no example`);
      const schemas = route.readBody ? [] : [route.body, route.described ?? route.body];
      for (const schema of schemas) {
        const read: { error?: Error } = await schema.safeParseAsync(example);
        assert.equal(read.error?.message, undefined, route.id);
      }
    }
  });

  it("are items of batches that are checked one by one, and an event with type and player", () => {
    const { NewSingleEvent, TrackEventsRequest, SubmitScoresRequest } = components.schemas;
    assert.equal(paths["/events"].post.requestBody.required, true);
    const required = NewSingleEvent.allOf
      .slice(1)
      .map(({ anyOf }: Any) => anyOf.map((one: Any) => one.required));
    assert.deepEqual(required, [
      [["eventType"], ["name"]],
      [["externalUserId"], ["playerId"]],
    ]);
    assert.equal(TrackEventsRequest.properties.events.items.$ref, "#/components/schemas/NewEvent");
    assert.equal(SubmitScoresRequest.properties.scores.items.$ref, "#/components/schemas/NewScore");
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
