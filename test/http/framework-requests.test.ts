import assert from "node:assert/strict";
import { z } from "zod";
import { route } from "../../src/http/route.ts";
import { startTinyHttp } from "../support/http/tiny-http.ts";
import { madeOnce } from "../support/made.ts";

const open = { tag: "Test", access: "public", project: "none", summary: "A test operation" } as const;

const routes = [
  route({
    ...open,
    method: "get",
    path: "/things/{id}",
    id: "getThing",
    params: z.object({ id: z.string().max(40) }),
    query: z.object({
      limit: z.coerce.number().int().max(100).default(20),
      status: z.string().optional(),
      name: z.union([z.string(), z.array(z.string())]).optional(),
    }),
    response: z.object({ name: z.unknown() }),
    outside: async (_app, { query }) => ({ name: query.name }),
  }),
  route({
    ...open,
    method: "post",
    path: "/touch",
    id: "touch",
    response: z.object({}),
    outside: async () => ({}),
  }),
];

describe("requests", () => {
  const http = madeOnce(
    () => startTinyHttp(routes),
    (made) => made.close(),
  );

  it("may repeat a parameter that takes a list", async () => {
    assert.deepEqual((await http.send("GET", "/things/7?name=a&name=b")).json, { name: ["a", "b"] });
  });

  it("refuses a parameter that is given twice, saying so", async () => {
    const answer = await http.send("GET", "/things/7?limit=5&limit=6&status=a&status=b");
    assert.deepEqual([answer.status, answer.json.error.code], [400, "VALIDATION_ERROR"]);
    const given = ["limit", "status"].map((field) => ({ field, message: "must be given once" }));
    assert.deepEqual(answer.json.error.details, given);
  });

  it("refuses a body where the operation takes none, but for an empty object", async () => {
    for (const [method, path] of [
      ["GET", "/things/7"],
      ["POST", "/touch"],
    ] as const) {
      const answer = await http.send(method, path, { body: '{"name":"x"}' });
      assert.deepEqual([answer.status, answer.json.error.code], [400, "VALIDATION_ERROR"]);
      assert.deepEqual(answer.json.error.details, [
        { field: "body", message: "this operation takes no body" },
      ]);
    }
    assert.equal((await http.send("POST", "/touch", { body: "{}" })).status, 200);
    assert.equal((await http.send("GET", "/things/7", { headers: { "Content-Length": "0" } })).status, 200);
  });
});
