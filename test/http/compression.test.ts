import assert from "node:assert/strict";
import { gunzipSync, gzipSync } from "node:zlib";
import { z } from "zod";
import { BODY_LIMIT } from "../../src/domain/kernel/limits.ts";
import { route } from "../../src/http/route.ts";
import { startTinyHttp } from "../support/http/tiny-http.ts";
import { madeOnce } from "../support/made.ts";

const open = { tag: "Test", access: "public", project: "none", summary: "A test operation" } as const;
/** The text of the answer to GET /kept. */
let kept = "first".repeat(1_000);

const routes = [
  route({
    ...open,
    method: "get",
    path: "/texts/{length}",
    id: "getText",
    params: z.object({ length: z.coerce.number() }),
    response: z.object({ text: z.string() }),
    outside: async (_app, { params: { length } }) => ({ text: "x".repeat(length) }),
  }),
  route({
    ...open,
    method: "get",
    path: "/lists",
    id: "getList",
    response: z.object({ data: z.array(z.string()) }),
    outside: async () => ({ data: Array.from({ length: 5_000 }, (_, n) => `item ${n} ½€`) }),
  }),
  route({
    ...open,
    method: "get",
    path: "/kept",
    id: "getKept",
    isRevalidated: true,
    response: z.object({ text: z.string() }),
    outside: async () => ({ text: kept }),
  }),
  route({
    ...open,
    method: "post",
    path: "/batch",
    id: "batch",
    bodyLimit: 2 * BODY_LIMIT,
    takesGzip: true,
    body: z.object({ text: z.string() }),
    response: z.object({ length: z.int() }),
    outside: async (_app, { body }) => ({ length: body.text.length }),
  }),
  route({
    ...open,
    method: "post",
    path: "/single",
    id: "single",
    body: z.object({}),
    response: z.object({}),
    outside: async () => ({}),
  }),
];

describe("compression", () => {
  const http = madeOnce(
    () => startTinyHttp(routes),
    (made) => made.close(),
  );

  const getBytes = async (path: string, headers: Record<string, string>) => {
    // fetch inflates, so the bytes are read from the connection.
    const lines = Object.entries({ Host: "x", Connection: "close", ...headers }).map(
      ([name, value]) => `${name}: ${value}`,
    );
    const text = await http.rawBytes(`GET ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n`);
    const end = text.indexOf("\r\n\r\n");
    return { head: text.subarray(0, end).toString().toLowerCase(), body: text.subarray(end + 4) };
  };

  it("makes long answers short for clients that take gzip, and leaves others as they are", async () => {
    for (const path of ["/texts/5000", "/lists"]) {
      const plain = await getBytes(path, {});
      const packed = await getBytes(path, { "Accept-Encoding": "gzip, deflate, br" });
      assert.match(packed.head, /content-encoding: gzip/);
      assert.ok(packed.head.includes(`content-length: ${packed.body.length}`));
      assert.ok(packed.body.length < plain.body.length / 3);
      assert.deepEqual(gunzipSync(packed.body), plain.body);
      for (const { head } of [plain, packed]) assert.match(head, /vary: accept-encoding/);
      for (const encoding of ["identity", "gzip;q=0", "br"]) {
        const { head, body } = await getBytes(path, { "Accept-Encoding": encoding });
        assert.doesNotMatch(head, /content-encoding/, encoding);
        assert.deepEqual(body, plain.body);
      }
    }
    assert.doesNotMatch((await getBytes("/texts/500", { "Accept-Encoding": "gzip" })).head, /encoding/);
  });

  it("gives answers that may be kept an ETag, and 304 to it until they change", async () => {
    const first = await http.send("GET", "/kept");
    const etag = String(first.headers["etag"]);
    assert.equal(first.headers["cache-control"], "private, no-cache");
    for (const asked of [etag, `"other", ${etag}`, "*"]) {
      const again = await http.send("GET", "/kept", { headers: { "If-None-Match": asked } });
      assert.deepEqual([again.status, again.text, again.headers["etag"]], [304, "", etag], asked);
    }
    // As fetch does it: caches on the way are not to answer.
    const headers = { "If-None-Match": etag, "Cache-Control": "no-cache" };
    assert.equal((await http.send("GET", "/kept", { headers })).status, 304);
    kept = "second".repeat(1_000);
    const changed = await http.send("GET", "/kept", { headers: { "If-None-Match": etag } });
    assert.equal(changed.status, 200);
    assert.notEqual(changed.headers["etag"], etag);
    assert.equal((await http.send("GET", "/texts/5000")).headers["etag"], undefined);
  });

  it("does the same for the OpenAPI document", async () => {
    const plain = await getBytes("/openapi.json", {});
    const packed = await getBytes("/openapi.json", { "Accept-Encoding": "gzip" });
    assert.deepEqual(gunzipSync(packed.body), plain.body);
    const { etag } = (await http.send("GET", "/openapi.json")).headers;
    const again = await http.send("GET", "/openapi.json", { headers: { "If-None-Match": String(etag) } });
    assert.deepEqual([again.status, again.text], [304, ""]);
  });

  const pack = (body: Buffer, path = "/batch", encoding = "gzip") =>
    http.send("POST", path, { body, headers: { "Content-Encoding": encoding } });
  const bodyOf = (length: number): Buffer => Buffer.from(JSON.stringify({ text: "x".repeat(length) }));

  it("takes gzip of batches, of several members too, and of nothing else", async () => {
    for (const encoding of ["gzip", "GZIP", "x-gzip"])
      assert.deepEqual((await pack(gzipSync(bodyOf(5_000)), "/batch", encoding)).json, { length: 5_000 });
    const [left, right] = [bodyOf(50).subarray(0, 20), bodyOf(50).subarray(20)];
    assert.deepEqual((await pack(Buffer.concat([gzipSync(left), gzipSync(right)]))).json, { length: 50 });
    assert.equal((await pack(bodyOf(50), "/batch", "identity")).status, 200);
    for (const [path, encoding] of [
      ["/single", "gzip"],
      ["/batch", "br"],
      ["/batch", "gzip, gzip"],
    ] as const) {
      const answer = await pack(gzipSync(bodyOf(50)), path, encoding);
      assert.deepEqual([answer.status, answer.json.error.code], [415, "UNSUPPORTED_MEDIA_TYPE"], path);
    }
  });

  it("inflates to the limit and no further, and refuses what is no gzip", async () => {
    const limit = 2 * BODY_LIMIT;
    assert.equal((await pack(gzipSync(bodyOf(limit - 11)))).status, 200);
    const bomb = gzipSync(Buffer.alloc(200 * 1024 * 1024, " "));
    const bombs = Buffer.concat(Array.from({ length: 5 }, () => gzipSync(Buffer.alloc(limit / 4, " "))));
    for (const body of [gzipSync(bodyOf(limit - 10)), bomb, bombs]) {
      const answer = await pack(body);
      assert.deepEqual([answer.status, answer.json.error.code], [413, "PAYLOAD_TOO_LARGE"]);
    }
    const cut = gzipSync(bodyOf(5_000)).subarray(0, -10);
    for (const body of [Buffer.from("{}"), cut, Buffer.from([0x1f, 0x8b])]) {
      const answer = await pack(body);
      assert.deepEqual([answer.status, answer.json.error.reason], [400, "MALFORMED_GZIP"]);
    }
  });
});
