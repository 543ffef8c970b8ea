import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { aTenant, startApp, type TestApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";

describe("requests that a client sends ahead on one connection", () => {
  let api: TestApp;
  before(async () => {
    api = await startApp();
  });

  const open = (text: string) => {
    const { hostname, port } = new URL(api.url);
    const socket = connect({ host: hostname, port: Number(port) });
    socket.on("error", () => undefined);
    let received = "";
    socket.on("data", (bytes) => (received += bytes.toString("latin1")));
    socket.write(text);
    const statuses = () => [...received.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));
    return { socket, statuses };
  };
  const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;

  it("are answered in their order, with their bodies read", async () => {
    const { key } = await aTenant(api);
    const posts = Array.from({ length: 10 }, (_, n) => {
      const body = JSON.stringify({ externalUserId: `u${n}`, eventType: "goal" });
      const headers = `Host: localhost\r\nX-API-Key: ${key}\r\nContent-Type: application/json`;
      return `POST /api/v1/events HTTP/1.1\r\n${headers}\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    });
    const client = open(posts.flatMap((post) => [post, get("/nothing")]).join(""));
    await eventually(() => client.statuses().length === 2 * posts.length);
    assert.deepEqual(
      client.statuses().map((status) => (status < 300 ? "stored" : status)),
      posts.flatMap(() => ["stored", 404]),
    );
    client.socket.destroy();
  });

  it("end the connection where there are too many", async () => {
    const { socket, statuses } = open(get("/nothing").repeat(1_000));
    await once(socket, "close");
    assert.ok(statuses().length <= 32, `${statuses().length} were served`);
  });

  const upgrade = [
    "GET /a/b HTTP/1.1",
    "Host: x",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    "\r\n",
  ].join("\r\n");
  it("leave a connection free for the socket of who was answered on it", async () => {
    const { socket, statuses } = open(get("/health/live"));
    await once(socket, "data");
    socket.write(upgrade);
    await eventually(() => statuses().includes(101));
    assert.deepEqual(statuses(), [200, 101]);
    socket.destroy();
  });
});
