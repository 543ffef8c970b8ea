import assert from "node:assert/strict";
import { z } from "zod";
import { openApiDocument } from "../../src/http/openapi.ts";
import { checkRoutes } from "../../src/http/server.ts";
import { type AnyRoute, route } from "../../src/http/route.ts";
import { routes as allRoutes } from "../../src/http/routes.ts";
import { checkResponse } from "../support/http/openapi-check.ts";
import { startApp } from "../support/app/app.ts";
import { startTinyHttp } from "../support/http/tiny-http.ts";

const Thing = z
  .object({
    id: z.uuid(),
    name: z.string(),
    note: z.string().nullable(),
    parent: z.object({ id: z.uuid() }).nullable().optional(),
    kind: z.enum(["A", "B"]).nullable(),
    share: z.number().gt(0).lt(1),
    nullable: z.boolean().optional(),
    labels: z.record(z.string(), z.string()),
    createdAt: z.date(),
  })
  .meta({ id: "Thing" });

const basics = {
  tag: "Things",
  summary: "A test operation",
  response: Thing,
  outside: () => Promise.reject(new Error()),
} as const;
const getThing = route({
  ...basics,
  method: "get",
  path: "/projects/{projectId}/things/{thingId}",
  id: "getThing",
  access: { scope: "config:read", roles: ["OWNER", "ADMIN"] },
  project: "path",
  params: z.object({ projectId: z.uuid(), thingId: z.string().meta({ description: "UUID or key" }) }),
  query: z.object({ limit: z.coerce.number().int().min(1).default(20) }),
});
const createThing = route({
  ...basics,
  method: "post",
  path: "/things",
  id: "createThing",
  access: { scope: "config:manage" },
  project: "caller",
  body: z.object({ name: z.string() }),
  status: 201,
  otherStatus: 200,
  errors: ["GONE"],
});
const routes = [getThing, createThing];

// oxlint-disable-next-line typescript/no-explicit-any -- read in many shapes
const plain = (list: readonly AnyRoute[]): any => JSON.parse(JSON.stringify(openApiDocument(list)));

/** The document's text without examples, which are data. */
const schemasText = (list: readonly AnyRoute[]): string =>
  JSON.stringify(openApiDocument(list), (key, value: unknown) => (key === "example" ? undefined : value));

describe("OpenAPI document", () => {
  const document = plain(routes);
  const path = "/projects/{projectId}/things/{thingId}";

  it("describes an operation with its parameters, body, answers, errors and who may call it", () => {
    const get = document.paths[path].get;
    assert.equal(get.operationId, "getThing");
    assert.deepEqual(
      get.parameters.map(({ name, in: where, required }: Record<string, unknown>) => [name, where, required]),
      [
        ["projectId", "path", true],
        ["thingId", "path", true],
        ["limit", "query", undefined],
      ],
    );
    assert.deepEqual(get.security, [{ ApiKeyAuth: [] }, { BearerAuth: [] }]);
    assert.match(get.description, /`config:read`.*OWNER, ADMIN/);
    assert.deepEqual(get.responses["404"], { $ref: "#/components/responses/NotFound" });
    assert.equal(get.responses["200"].content["application/json"].schema.$ref, "#/components/schemas/Thing");
    assert(get.responses["200"].headers["X-Request-Id"]);
    const post = document.paths["/things"].post;
    assert.deepEqual(
      Object.keys(post.responses).filter((status) => status < "300"),
      ["200", "201"],
    );
    assert(post.responses["410"] && post.responses["413"] && !get.responses["410"]);
    assert.equal(post.requestBody.required, true);
    assert.deepEqual(post.security, [{ ApiKeyAuth: [] }]);
    assert.deepEqual(
      post.parameters.map(({ $ref }: { $ref: string }) => $ref.split("/").at(-1)),
      ["X-Project-ID", "projectId", "X-Idempotency-Key"],
    );
  });

  it("speaks OpenAPI 3.0: nullable, boolean exclusive bounds, no JSON Schema of later drafts", () => {
    assert.equal(document.openapi, "3.0.3");
    assert.deepEqual(document.servers, [{ url: "/api/v1" }]);
    const { note, share, createdAt } = document.components.schemas.Thing.properties;
    assert.deepEqual(note, { type: "string", nullable: true });
    assert.equal(share.exclusiveMinimum, true);
    assert.deepEqual(createdAt, { type: "string", format: "date-time" });
    const text = schemasText([...routes, ...allRoutes]);
    for (const word of [
      '"type":"null"',
      '"const"',
      '"$defs"',
      '"propertyNames"',
      '"examples"',
      '"prefixItems"',
    ]) {
      assert(!text.includes(word), word);
    }
  });

  it("has no reference that leads nowhere", () => {
    const whole = plain(allRoutes);
    for (const [, ref = ""] of JSON.stringify(whole).matchAll(/"\$ref":"#([^"]+)"/g)) {
      const target = ref
        .split("/")
        .slice(1)
        .reduce((node, name) => node?.[decodeURIComponent(name)], whole);
      assert(target, ref);
    }
  });

  it("is made in a thread by a server with the server's address, and is the same but for it", async () => {
    const api = await startApp();
    const answers = await Promise.all([1, 2].map(() => fetch(`${api.url}/openapi.json`)));
    const servers = [{ url: `http://localhost:${api.port}/api/v1` }];
    for (const answer of answers) assert.deepEqual(await answer.json(), { ...plain(allRoutes), servers });
  });

  it("is what the server shows, with every operation", async () => {
    const http = await startTinyHttp(allRoutes);
    const { json } = await http.send("GET", "/openapi.json");
    const limits = await http.send("GET", "/api/v1/limits");
    await http.close();
    const servers = [{ url: "http://localhost:2567/api/v1" }];
    assert.deepEqual(json, { ...plain(allRoutes), servers });
    assert.equal(
      Object.values(json.paths).flatMap((item) => Object.keys(item as object)).length,
      allRoutes.length,
    );
    checkResponse(json, "GET", "/api/v1/limits", limits.status, limits.json);
    assert(
      limits.json.data.some(
        ({ name, value }: Record<string, unknown>) => name === "event.batch.events" && value === 1000,
      ),
    );
  });

  it("refuses routes that contradict themselves or each other", () => {
    checkRoutes(allRoutes);
    const wrong: AnyRoute[][] = [
      [getThing, { ...getThing, id: "other" }],
      [getThing, { ...createThing, id: "getThing" }],
      [getThing, { ...getThing, id: "renamed", path: path.replace("thingId", "id") }],
      [{ ...createThing, path: "/things/{id}" }],
      [{ ...createThing, path: "things" }],
      [{ ...createThing, access: "public" }],
      [{ ...createThing, project: "path" }],
    ];
    for (const list of wrong) assert.throws(() => checkRoutes(list), { name: "AssertionError" });
  });
});
