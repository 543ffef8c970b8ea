import assert from "node:assert/strict";
import { gzipSync } from "node:zlib";
import { UniqueConstraintViolationException } from "@mikro-orm/core";
import { z } from "zod";
import { conflict, DomainError } from "../../src/domain/kernel/errors.ts";
import { BODY_LIMIT, BODY_PARTS_MAX } from "../../src/domain/kernel/limits.ts";
import { Reply, route } from "../../src/http/route.ts";
import { startTinyHttp, type TinyAnswer } from "../support/http/tiny-http.ts";
import { madeOnce } from "../support/made.ts";

const open = { tag: "Test", access: "public", project: "none", summary: "A test operation" } as const;
const Echo = z.object({ got: z.unknown() });
const failures: Record<string, () => unknown> = {
  domain: () => conflict("LOBBY_FULL", "The lobby is full"),
  late: () => new DomainError("RATE_LIMITED", "Slow down", { retryAfterSeconds: 2.2 }),
  bug: () => new TypeError("secret detail of the inside"),
  text: () => "a thrown string",
  nothing: () => undefined,
  zod: () =>
    z.object({ rule: z.object({ steps: z.array(z.int()) }) }).safeParse({ rule: { steps: [1, "x"] } }).error,
  orm: () => new UniqueConstraintViolationException(new Error("duplicate key: someone@example.com")),
  driver: () => Object.assign(new Error("duplicate key"), { code: "23505" }),
  deadlock: () => Object.assign(new Error("deadlock"), { code: "40P01" }),
};

const routes = [
  route({
    ...open,
    method: "get",
    path: "/things/{id}",
    id: "getThing",
    params: z.object({ id: z.string().max(40) }),
    query: z.object({ limit: z.coerce.number().int().max(100).default(20), status: z.string().optional() }),
    response: Echo,
    outside: async (_app, { params, query, actor: { ip, requestId } }) => ({
      got: { params, query, ip, requestId },
    }),
  }),
  route({
    ...open,
    method: "get",
    path: "/things/special",
    id: "getSpecial",
    response: Echo,
    outside: async () => ({ got: "special" }),
  }),
  route({
    ...open,
    method: "post",
    path: "/things",
    id: "createThing",
    body: z.object({
      name: z.string().min(2).default("none"),
      deep: z.object({ list: z.array(z.int()) }).optional(),
    }),
    bodyLimit: BODY_LIMIT,
    status: 201,
    otherStatus: 200,
    response: Echo,
    outside: async (_app, { body }) =>
      body.name === "again" ? new Reply(200, { got: body }, { "X-Extra": "yes" }) : { got: body },
  }),
  route({
    ...open,
    method: "post",
    path: "/raw",
    id: "raw",
    body: z.unknown(),
    itemised: true,
    bodyLimit: 2 * BODY_LIMIT,
    response: Echo,
    outside: async (_app, { body }) => ({ got: JSON.stringify(body).length }),
  }),
  route({
    ...open,
    method: "post",
    path: "/fail/{how}",
    id: "fail",
    params: z.object({ how: z.string() }),
    response: Echo,
    outside: async (_app, { params }) => {
      throw failures[params.how]?.();
    },
  }),
];

const assertError = (
  { status, json, headers }: TinyAnswer,
  expected: { status: number; code: string },
): void => {
  assert.equal(status, expected.status, JSON.stringify(json));
  assert.deepEqual(Object.keys(json), ["error"]);
  const { code, message, details, requestId, timestamp } = json.error;
  assert.equal(code, expected.code);
  assert.equal(typeof message, "string");
  assert(Array.isArray(details));
  assert.equal(requestId, headers["x-request-id"]);
  assert.equal(new Date(timestamp).toISOString(), timestamp);
};

describe("HTTP framework", () => {
  const http = madeOnce(
    () => startTinyHttp(routes),
    (made) => made.close(),
  );
  const post = (path: string, body: string, headers = {}) => http.send("POST", path, { body, headers });

  it("serves an operation under /api/v1, /v1 and no prefix, and under no other", async () => {
    for (const prefix of ["/api/v1", "/v1", ""]) {
      const { status, json } = await http.send("GET", `${prefix}/things/7?limit=5`);
      assert.equal(status, 200);
      assert.deepEqual(json.got.query, { limit: 5 });
      assert.deepEqual(json.got.params, { id: "7" });
    }
    for (const path of ["/api/v2/things/7", "/api/v1/v1/things/7", "/API/V1/things/7", "/Things/7"]) {
      assertError(await http.send("GET", path), { status: 404, code: "NOT_FOUND" });
    }
  });

  it("prefers a literal path to a parameter whatever their order in the list", async () => {
    assert.equal((await http.send("GET", "/things/special")).json.got, "special");
  });

  it("answers 405 with Allow where another method is served, in every prefix form", async () => {
    for (const prefix of ["/api/v1", "/v1", ""]) {
      const answer = await http.send("DELETE", `${prefix}/things/7`);
      assertError(answer, { status: 405, code: "METHOD_NOT_ALLOWED" });
      assert.equal(answer.headers["allow"], "GET, HEAD");
    }
    assert.equal((await http.send("PUT", "/things")).headers["allow"], "POST");
    assert.equal((await http.send("POST", "/health/live", { body: "{}" })).status, 405);
  });

  it("echoes a fit X-Request-Id and replaces any other", async () => {
    const mine = "client-id_12345";
    const kept = await http.send("GET", "/things/7", { headers: { "X-Request-Id": mine } });
    assert.equal(kept.headers["x-request-id"], mine);
    assert.equal(kept.json.got.requestId, mine);
    for (const bad of ["short", "x".repeat(65), "has space in it", "semi;colon-1234", "ünïcode-1234"]) {
      const answer = await http.send("GET", "/nowhere", {
        headers: { "X-Request-Id": Buffer.from(bad).toString("latin1") },
      });
      assert.match(String(answer.headers["x-request-id"]), /^[\w-]{36}$/);
      assert.equal(answer.json.error.requestId, answer.headers["x-request-id"]);
    }
  });

  it("gives its own status, another one and headers as the operation says", async () => {
    assert.equal((await post("/things", '{"name":"new"}')).status, 201);
    const again = await post("/things", '{"name":"again"}');
    assert.equal(again.status, 200);
    assert.equal(again.headers["x-extra"], "yes");
  });

  it("takes no body for an empty object", async () => {
    for (const request of [{}, { body: "" }, { body: [] }, { headers: { "Content-Length": "0" } }]) {
      const answer = await http.send("POST", "/things", request);
      assert.equal(answer.status, 201, answer.text);
      assert.deepEqual(answer.json.got, { name: "none" });
    }
  });

  it("refuses unknown body fields and query parameters by name", async () => {
    const body = await post("/things", '{"name":"ok","role":"OWNER"}');
    assertError(body, { status: 400, code: "VALIDATION_ERROR" });
    assert.match(body.json.error.message, /unknown field role; known: name, deep/);
    const answer = await http.send("GET", "/things/7?limit=5&stauts=x");
    assertError(answer, { status: 400, code: "VALIDATION_ERROR" });
    assert.equal(answer.json.error.details[0].field, "stauts");
    assertError(await http.send("GET", "/things/special?x=1"), { status: 400, code: "VALIDATION_ERROR" });
  });

  it("names every bad field by its dotted path", async () => {
    const answer = await post("/things", '{"name":"x","deep":{"list":[1,"two"]}}');
    assertError(answer, { status: 400, code: "VALIDATION_ERROR" });
    const fields = answer.json.error.details.map(({ field }: { field: string }) => field);
    assert.deepEqual(fields, ["name", "deep.list.1"]);
    assert.equal((await http.send("GET", "/things/7?limit=1&limit=2")).status, 400);
    for (const body of ["[]", '"text"', "7", "null"]) {
      const wrong = await post("/things", body);
      assertError(wrong, { status: 400, code: "VALIDATION_ERROR" });
      assert.equal(wrong.json.error.details[0].field, "body");
    }
  });

  it("answers broken JSON and bytes that are no UTF-8 with MALFORMED_JSON, unquoted", async () => {
    for (const body of ["{", '{"password":"hunter2"', Buffer.from([0x22, 0xff, 0x22]), "{}{}"]) {
      const answer = await http.send("POST", "/things", { body });
      assertError(answer, { status: 400, code: "VALIDATION_ERROR" });
      assert.equal(answer.json.error.reason, "MALFORMED_JSON");
      assert(!answer.text.includes("hunter2"));
    }
  });

  it("takes application/json in UTF-8 and nothing else", async () => {
    for (const type of ["application/json; charset=UTF-8", 'application/json;charset="utf-8"']) {
      assert.equal((await post("/things", "{}", { "Content-Type": type })).status, 201, type);
    }
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "application/json; charset=utf-16",
      "nonsense",
    ]) {
      assertError(await post("/things", "{}", { "Content-Type": type }), {
        status: 415,
        code: "UNSUPPORTED_MEDIA_TYPE",
      });
    }
    const body = gzipSync("{}");
    const packed = await http.send("POST", "/things", { body, headers: { "Content-Encoding": "gzip" } });
    assertError(packed, { status: 415, code: "UNSUPPORTED_MEDIA_TYPE" });
  });

  it("takes a body of exactly the limit and refuses a larger one, announced or in chunks", async () => {
    const text = (bytes: number) => `{"name":"${"y".repeat(bytes - 11)}"}`;
    assert.equal((await post("/things", text(BODY_LIMIT))).status, 201);
    assertError(await post("/things", text(BODY_LIMIT + 1)), { status: 413, code: "PAYLOAD_TOO_LARGE" });
    const body = Array.from({ length: 24 }, () => "y".repeat(64 * 1024));
    assertError(await http.send("POST", "/things", { body }), { status: 413, code: "PAYLOAD_TOO_LARGE" });
    assert.equal((await post("/raw", text(BODY_LIMIT + 1))).status, 200);
    assertError(await post("/raw", text(2 * BODY_LIMIT + 1)), { status: 413, code: "PAYLOAD_TOO_LARGE" });
  });

  it("takes as many names and values as the limit says, counted before they are parsed", async () => {
    const ones = (parts: number) => `{"deep":{"list":[${"1,".repeat(parts - 6)}1]}}`;
    assert.equal((await post("/things", ones(BODY_PARTS_MAX))).status, 201);
    for (const text of [ones(BODY_PARTS_MAX + 1), "[".repeat(BODY_LIMIT), "{},".repeat(BODY_PARTS_MAX)])
      assertError(await post("/things", text), { status: 413, code: "PAYLOAD_TOO_LARGE" });
    const quoted = JSON.stringify({ name: '\\"[{,:'.repeat(BODY_PARTS_MAX) });
    assert.equal((await post("/things", quoted)).status, 201);
  });

  it("refuses values that databases trip over by their path, and lets itemised bodies judge", async () => {
    const hostile = {
      '{"name":"a\\u0000b"}': "name",
      '{"deep":{"list":["\\ud800"]}}': "deep.list.0",
      '{"__proto__":{"polluted":1}}': "__proto__",
      '{"deep":{"constructor":1}}': "deep.constructor",
    };
    for (const [body, field] of Object.entries(hostile)) {
      const answer = await post("/things", body);
      assertError(answer, { status: 400, code: "VALIDATION_ERROR" });
      assert.equal(answer.json.error.details[0].field, field);
      assert.equal((await post("/raw", body)).status, 200);
    }
    const half = BODY_PARTS_MAX / 2;
    const deep = "[".repeat(half) + "]".repeat(half);
    assertError(await post("/things", deep), { status: 400, code: "VALIDATION_ERROR" });
    assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
  });

  it("refuses addresses that hold NUL or broken escapes", async () => {
    for (const path of ["/things/a%00b", "/things/7?status=%00", "/things/%E0%A4%A"]) {
      assertError(await http.send("GET", path), { status: 400, code: "VALIDATION_ERROR" });
    }
  });

  it("answers expected errors as they are and bugs as 500 without a word of the inside", async () => {
    const full = await post("/fail/domain", "{}");
    assertError(full, { status: 409, code: "CONFLICT" });
    assert.equal(full.json.error.reason, "LOBBY_FULL");
    const late = await post("/fail/late", "{}");
    assertError(late, { status: 429, code: "RATE_LIMITED" });
    assert.equal(late.headers["retry-after"], "3");
    const zod = await post("/fail/zod", "{}");
    assertError(zod, { status: 400, code: "VALIDATION_ERROR" });
    assert.equal(zod.json.error.details[0].field, "rule.steps.1");
    for (const how of ["orm", "driver"]) {
      const answer = await post(`/fail/${how}`, "{}");
      assertError(answer, { status: 409, code: "CONFLICT" });
      assert(!answer.text.includes("duplicate"));
    }
    assertError(await post("/fail/deadlock", "{}"), { status: 503, code: "SERVICE_UNAVAILABLE" });
    for (const how of ["bug", "text", "nothing"]) {
      const answer = await post(`/fail/${how}`, "{}");
      assertError(answer, { status: 500, code: "INTERNAL_ERROR" });
      assert.equal(answer.json.error.message, "Internal error");
    }
    const line = http.lines.find((text) => text.includes("secret detail of the inside"));
    assert(line?.includes("stack"), "the log has the whole error");
  });

  it("reads the client's address through trusted proxies alone, and takes no text for one", async () => {
    const ipOf = async (forwarded: string) =>
      (await http.send("GET", "/things/7", { headers: { "X-Forwarded-For": forwarded } })).json.got.ip;
    assert.equal(await ipOf("203.0.113.9"), "203.0.113.9");
    assert.equal(await ipOf("6.6.6.6, 203.0.113.9"), "203.0.113.9");
    assert.equal(await ipOf("2001:db8::1"), "2001:db8::1");
    assert.equal(await ipOf("<script>"), "127.0.0.1");
  });
});
