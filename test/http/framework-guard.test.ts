import assert from "node:assert/strict";
import { connect } from "node:net";
import { z } from "zod";
import type { App } from "../../src/app.ts";
import { MATCHMAKE_BODY_LIMIT } from "../../src/domain/kernel/limits.ts";
import { route } from "../../src/http/route.ts";
import { eventually } from "../support/eventually.ts";
import { startTinyHttp, type TinyHttp } from "../support/http/tiny-http.ts";
import { madeOnce } from "../support/made.ts";

const bodyOf = (answer: string) =>
  JSON.parse(answer.slice(answer.indexOf("\r\n\r\n") + 4)) as {
    error: { code: string; requestId: string; reason?: string };
  };

/** Refuses no address, and counts the requests that have arrived. */
let arrived = 0;
const blocks = {
  refuse: async () => void arrived++,
} as unknown as App["blocks"];

const taking = route({
  method: "post",
  path: "/taking",
  id: "taking",
  tag: "Test",
  summary: "A test operation",
  access: "public",
  project: "none",
  body: z.object({}),
  response: z.object({}),
  outside: async () => ({}),
});

/** What was logged of requests to an operation, once there is any. */
const recordsOf = ({ lines }: TinyHttp): { route: string; status: number }[] =>
  lines
    .map((line) => JSON.parse(line) as { msg: string; route: string; status: number })
    .filter(({ msg, route: path }) => msg === "request" && path === "/taking")
    .map(({ route: path, status }) => ({ route: path, status }));

describe("HTTP guard", () => {
  const http = madeOnce(
    () => startTinyHttp([taking], { blocks }),
    (made) => made.close(),
  );

  const badHosts = ["a b", "[::1", "host:port", "ho<st", "%zz", "a/../b:99999", "user@host", "host:99999"];

  const assertRefused = (answer: string): void => {
    assert.match(answer, /^HTTP\/1\.1 400 /);
    const { error } = bodyOf(answer);
    assert.equal(error.code, "VALIDATION_ERROR");
    assert(answer.includes(`X-Request-Id: ${error.requestId}\r\n`));
  };

  it("refuses a Host that is none, with the error body and a request id", async () => {
    for (const host of badHosts)
      assertRefused(await http.raw(`GET /health/live HTTP/1.1\r\nHost: ${host}\r\n\r\n`));
    for (const host of ["localhost", "127.0.0.1:2567", "[::1]:80", "xn--bcher-kva.example"]) {
      assert.equal((await http.send("GET", "/health/live", { headers: { Host: host } })).status, 200, host);
    }
  });

  it("refuses HTTP/1.1 without a Host, and serves HTTP/1.0 without", async () => {
    assertRefused(await http.raw("GET /health/live HTTP/1.1\r\n\r\n"));
    assert.match(await http.raw("GET /health/live HTTP/1.0\r\n\r\n"), /^HTTP\/1\.1 200 /);
  });

  it("refuses an expectation that is none of HTTP's", async () => {
    const head =
      "POST /taking HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";
    assertRefused(await http.raw(`${head}Expect: gold\r\n\r\n{}`));
    const answer = await http.raw(`${head}Expect: 100-Continue\r\nConnection: close\r\n\r\n{}`);
    assert.match(answer, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /);
  });

  it("asks for no body that it would refuse for its expectation or its Host", async () => {
    const headers = "Content-Type: application/json\r\nContent-Length: 2\r\n";
    for (const wrong of ["Host: x\r\nExpect: 100-continue, gold", "Host: a b\r\nExpect: 100-continue"])
      assertRefused(await http.raw(`POST /taking HTTP/1.1\r\n${headers}${wrong}\r\n\r\n`));
  });

  it("refuses a Host that is given twice", async () => {
    assertRefused(await http.raw("GET /health/live HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n"));
  });

  it("refuses to be a tunnel, with the error body", async () => {
    const answer = await http.raw("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n");
    assert.match(answer, /^HTTP\/1\.1 405 /);
    assert.equal(bodyOf(answer).error.code, "METHOD_NOT_ALLOWED");
  });

  it("serves who offers another protocol in HTTP/1.1", async () => {
    const offer =
      "Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    const head = `POST /taking HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${offer}`;
    assert.match(await http.raw(`${head}Content-Length: 2\r\n\r\n{}`), /^HTTP\/1\.1 200 /);
  });

  it("refuses it on upgrades too, before any listener sees them", async () => {
    let seen = 0;
    const upgrading = await startTinyHttp([], {}, (_request, socket) => {
      seen += 1;
      socket.destroy();
    });
    const upgrade = (host: string) =>
      upgrading.raw(
        `GET /p/r HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
      );
    for (const host of badHosts) assertRefused(await upgrade(host));
    assert.equal(seen, 0);
    await upgrade("localhost");
    assert.equal(seen, 1);
    await upgrading.close();
  });

  it("keeps the client's own request id in its refusals", async () => {
    const answer = await http.raw("GET / HTTP/1.1\r\nHost: a b\r\nX-Request-Id: my-own-id-1\r\n\r\n");
    assert.equal(bodyOf(answer).error.requestId, "my-own-id-1");
  });

  it("takes http and https in X-Forwarded-Proto, also of a list, and refuses anything else", async () => {
    for (const good of ["http", "https", "https, http", "HTTPS"]) {
      const { status } = await http.send("GET", "/health/live", { headers: { "X-Forwarded-Proto": good } });
      assert.equal(status, 200, good);
    }
    for (const bad of ["gopher", "ht tp", ",", "javascript:"]) {
      const answer = await http.send("GET", "/health/live", { headers: { "X-Forwarded-Proto": bad } });
      assert.equal(answer.status, 400, bad);
      assert.equal(answer.json.error.code, "VALIDATION_ERROR");
    }
  });

  it("refuses targets that are no path", async () => {
    for (const target of ["http://example.com/health/live", "*", "//", "/\\/["]) {
      const answer = await http.raw(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
      assert.match(answer, /^HTTP\/1\.1 40[04] /, target);
    }
  });

  it("wants a length for matchmaking and at most 16 KiB", async () => {
    const chunked = await http.send("POST", "/matchmake/joinOrCreate/lobby", { body: ["{}"] });
    assert.equal(chunked.status, 400);
    assert.equal(chunked.json.error.reason, "LENGTH_REQUIRED");
    const big = await http.send("POST", "/matchmake/joinOrCreate/lobby", {
      body: "x".repeat(MATCHMAKE_BODY_LIMIT + 1),
    });
    assert.equal(big.status, 413);
    assert.equal(big.json.error.code, "PAYLOAD_TOO_LARGE");
  });

  it("answers what is not HTTP, and headers that are too large, with the error body", async () => {
    assert.equal(bodyOf(await http.raw("nonsense\r\n\r\n")).error.reason, "MALFORMED");
    const large = await http.raw(`GET / HTTP/1.1\r\nHost: x\r\nX-Large: ${"x".repeat(20_000)}\r\n\r\n`);
    assert.match(large, /^HTTP\/1\.1 431 /);
    assert.equal(bodyOf(large).error.code, "HEADERS_TOO_LARGE");
  });

  it("answers 408 to what takes too long to arrive, and does not record it as a success", async () => {
    const timing = { headersTimeout: 200, requestTimeout: 200, connectionsCheckingInterval: 50 };
    const slow = await startTinyHttp([taking], {}, undefined, timing);
    const head = "POST /taking HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    for (const part of ["GET /health/live HTTP/1.1\r\nHost: x", `${head}Content-Length: 9\r\n\r\n{`]) {
      const answer = await slow.raw(part);
      assert.match(answer, /^HTTP\/1\.1 408 /);
      assert.equal(bodyOf(answer).error.code, "REQUEST_TIMEOUT");
    }
    const record = await eventually(() => recordsOf(slow)[0]);
    assert.deepEqual(record, { route: "/taking", status: 499 });
    await slow.close();
  });

  it("records a client that has gone before its answer as 499, not as a success", async () => {
    const before = arrived;
    const socket = connect(http.port, "127.0.0.1");
    socket.write("POST /taking HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n");
    socket.write("Content-Length: 9\r\n\r\n{");
    await eventually(() => arrived > before);
    socket.destroy();
    const record = await eventually(() => recordsOf(http).find(({ status }) => status !== 200));
    assert.deepEqual(record, { route: "/taking", status: 499 });
  });

  it("refuses two lengths and a length beside chunks, the tools of request smuggling", async () => {
    for (const headers of [
      "Content-Length: 2\r\nContent-Length: 3",
      "Content-Length: 2\r\nTransfer-Encoding: chunked",
    ]) {
      const answer = await http.raw(`POST / HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n{}`);
      assert.match(answer, /^HTTP\/1\.1 400 /);
    }
  });
});
