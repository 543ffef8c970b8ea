import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { must } from "../support/http/client.ts";

/** Empty objects, each of which counts twice: nearly as many names and values as a body may have. */
const PARTS = 120_000;
const REQUESTS = 30;

describe("bodies that are large in memory", function () {
  this.timeout(60_000);
  let api: TestApp;
  let tenant: Tenant;
  let other: Tenant;
  const sockets: Socket[] = [];
  before(async () => {
    api = await startApp();
    [tenant, other] = [await aTenant(api), await aTenant(api)];
  });
  after(() => sockets.forEach((socket) => socket.destroy()));

  const event = { externalUserId: "ada", eventType: "thing" };
  const postBatch = async (key: string, body: Buffer): Promise<{ status: number; reason?: string }> => {
    const headers = { "X-API-Key": key, "Content-Type": "application/json", "Content-Encoding": "gzip" };
    const answer = await fetch(`${api.url}/api/v1/events/batch`, { method: "POST", headers, body });
    const { error } = (await answer.json()) as { error?: { reason?: string } };
    return { status: answer.status, ...(error?.reason === undefined ? {} : { reason: error.reason }) };
  };

  it("are bounded for a tenant, however few bytes were sent, and harm no other", async () => {
    const filler = Array.from({ length: PARTS }, () => ({}));
    const bomb = gzipSync(JSON.stringify({ events: [event], x: filler }));
    assert.ok(bomb.length < 2_000, "it costs its sender nothing");
    const attack = Promise.all(Array.from({ length: REQUESTS }, () => postBatch(tenant.key, bomb)));
    must(await api.post("/api/v1/events/batch", { events: [event] }, { key: other.key }), 200);
    const refused = (await attack).filter(({ status }) => status !== 200);
    assert.ok(refused.length > 0, "nothing bounds them");
    for (const one of refused) assert.deepEqual(one, { status: 503, reason: "SERVER_BUSY" });
    assert.equal((await postBatch(tenant.key, bomb)).status, 200, "one alone is taken");
  });

  it("of configurations keep nobody waiting while their senders are slow", async () => {
    const { hostname, port } = new URL(api.url);
    for (const { key } of [tenant, await aTenant(api)]) {
      const socket = connect({ host: hostname, port: Number(port) });
      sockets.push(socket);
      await once(socket, "connect");
      const headers = ["Host: localhost", `X-API-Key: ${key}`, "Content-Type: application/json"];
      const head = ["POST /api/v1/config/import HTTP/1.1", ...headers, "Content-Length: 5000"].join("\r\n");
      socket.write(`${head}\r\n\r\n{`);
    }
    // Both are in before this one: requests before their bodies are admitted in the order they came.
    must(await api.get("/api/v1/limits"), 200);
    must(await api.get("/api/v1/config/export", { key: other.key }), 200);
  });
});
