import assert from "node:assert/strict";
import { connect } from "node:net";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { assertError } from "../support/http/assert-error.ts";

/** Chunks that are written together. */
const CHUNKS = 400;

describe("bodies that nobody wants", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  /** Sends chunks of a byte, for ever or `count` of them, until the server ends the connection. */
  const sendChunks = async (
    path: string,
    { key, count = Infinity }: { key?: string; count?: number } = {},
  ): Promise<{ answer: string; sent: number }> => {
    const { hostname, port } = new URL(api.url);
    const socket = connect({ host: hostname, port: Number(port) });
    let answer = "";
    let sent = 0;
    socket.on("data", (data) => (answer += data.toString()));
    socket.on("error", () => undefined);
    const headers = ["Host: localhost", "Content-Type: application/json", "Transfer-Encoding: chunked"];
    if (key !== undefined) headers.push(`X-API-Key: ${key}`);
    socket.write([`POST ${path} HTTP/1.1`, ...headers, "", ""].join("\r\n"));
    const closed = new Promise((resolve) => socket.once("close", resolve));
    const write = (): void => {
      if (!socket.writable || sent >= count) return;
      sent += CHUNKS;
      socket.write("1\r\n1\r\n".repeat(CHUNKS), () => setImmediate(write));
    };
    write();
    await closed;
    return { answer, sent };
  };

  for (const path of ["/nowhere", "/api/v1/events", "/matchmake/joinOrCreate/lobby", "/metrics"]) {
    it(`end the connection at once, if they come in thousands of chunks: ${path}`, async () => {
      const { sent } = await sendChunks(path);
      assert(sent < 100_000, `${sent} chunks`);
    });
  }

  it("are refused in hundreds of chunks of a byte, and end the connection", async () => {
    const { answer } = await sendChunks("/api/v1/events/batch", { key: tenant.key, count: 2 * CHUNKS });
    assert.match(answer, /^HTTP\/1.1 413[^]*CHUNKS_TOO_SMALL/);
  });

  it("leave a client that sends megabytes before it reads the answer to its request", async () => {
    const body = { events: [], filler: "x".repeat(4_000_000) };
    for (let n = 0; n < 5; n++)
      assertError(
        await api.post("/api/v1/events/batch", body, { key: "svc_live_unknown" }),
        401,
        "API_KEY_INVALID",
      );
    const kept = await api.get("/api/v1/limits", { key: tenant.key });
    assert.equal(kept.status, 200);
  });

  it("of operations that are open to everyone may have 16 KiB", async () => {
    const login = (password: string) =>
      api.post("/api/v1/auth/login", { email: "nobody@example.com", password });
    assertError(await login("x".repeat(17_000)), 413);
    assertError(await login("x".repeat(100)), 401, "INVALID_CREDENTIALS");
  });
});
