import assert from "node:assert/strict";
import * as fc from "fast-check";
import { z } from "zod";
import { route } from "../../src/http/route.ts";
import { startTinyHttp } from "../support/http/tiny-http.ts";
import { cases } from "../support/properties.ts";

const open = { tag: "Test", access: "public", project: "none", summary: "A test operation" } as const;
const routes = [
  route({
    ...open,
    method: "get",
    path: "/things/{id}",
    id: "getThing",
    params: z.object({ id: z.string() }),
    query: z.object({ "a[b]": z.string().optional() }),
    response: z.unknown(),
    outside: async (_app, { params, query }) => ({ params, query }),
  }),
  route({
    ...open,
    method: "post",
    path: "/things",
    id: "createThing",
    body: z.record(z.string(), z.unknown()),
    response: z.unknown(),
    outside: async (_app, { body }) => body,
  }),
];

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"];
const TYPES = ["application/json", "application/json", "text/plain", "application/json;charset=x", ";"];
const PATHS = [
  "/things",
  "/v1/things",
  "/api/v1/things/7",
  "/things/%2e%2e",
  "/health/live",
  "/docs",
  "/openapi.json",
];
const PARTS = [
  "api",
  "v1",
  "things",
  "..",
  "%2e",
  "%",
  "%ff",
  "",
  "é",
  "{id}",
  "*",
  "?a[b]=c",
  "?a=%",
  ";",
  "__proto__",
];

const target = fc.oneof(
  fc.constantFrom(...PATHS),
  fc
    .array(fc.constantFrom(...PARTS), { maxLength: 5 })
    .map((parts) => encodeURI(`/${parts.join("/")}`).replaceAll("%25", "%")),
);
const body = fc.oneof(
  fc.json(),
  fc.string(),
  fc.json().map((text) => `{"a":${text}}`),
);

describe("HTTP framework against any input", () => {
  it("answers with a success or the error body, and lives on", async () => {
    const http = await startTinyHttp(routes);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...METHODS),
        target,
        body,
        fc.constantFrom(...TYPES),
        async (method, path, text, type) => {
          const { status, json } = await http.send(method, path, {
            body: text,
            headers: { "Content-Type": type },
          });
          assert(status < 500, `${method} ${path}: ${status}`);
          if (status >= 400 && method !== "HEAD")
            assert.equal(typeof json?.error?.code, "string", `${method} ${path}`);
        },
      ),
      { numRuns: cases(500) },
    );
    assert.equal((await http.send("GET", "/health/live")).status, 200);
    await http.close();
  });
});
