import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect } from "node:net";
import { guardedHttpServer } from "../../src/http/guard.ts";
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

  const aPost = (path: string, body: string): string =>
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

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

  it("go on after a pause", async () => {
    const client = open(get("/health/live").repeat(5));
    await eventually(() => client.statuses().length === 5);
    client.socket.write(get("/health/live").repeat(5));
    await eventually(() => client.statuses().length === 10);
    assert.ok(client.statuses().every((status) => status === 200));
    client.socket.destroy();
  });

  it("end the connection where there are too many, also with bodies", async () => {
    const { socket, statuses } = open(aPost("/", "a").repeat(1_000));
    await once(socket, "close");
    assert.ok(statuses().length <= 33, `${statuses().length} were served`);
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

  it("are not overtaken by a change of the protocol behind them, which has its turn", async () => {
    // It is made when it is first asked for, which may take longer than a change of the protocol waits.
    assert.equal((await fetch(`${api.url}/openapi.json`)).status, 200);
    for (const before of [
      get("/openapi.json"),
      aPost("/api/v1/auth/login", "{}"),
      get("/nothing").repeat(3),
    ]) {
      const { socket, statuses } = open(before + upgrade);
      await eventually(() => statuses().includes(101));
      assert.equal(statuses().indexOf(101), before.split(" HTTP/1.1").length - 1);
      socket.destroy();
    }
    const { socket, statuses } = open(`${get("/openapi.json")}CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n`);
    await once(socket, "close");
    assert.deepEqual(statuses(), [200, 405]);
  });

  it("may be reset while a change of the protocol waits behind them", async () => {
    for (let n = 0; n < 20; n++) {
      const { socket } = open(get("/openapi.json").repeat(5) + upgrade);
      await once(socket, "ready");
      setTimeout(() => socket.resetAndDestroy(), n);
      await once(socket, "close");
    }
    const { socket, statuses } = open(get("/health/live"));
    await eventually(() => statuses()[0] === 200);
    socket.destroy();
  });

  it("hold up a change of the protocol for some seconds at most, answered or not", async () => {
    const server = guardedHttpServer();
    server.on("request", () => undefined);
    server.on("upgrade", () => assert.fail("it must not come before the answer"));
    await once(server.listen(0, "127.0.0.1"), "listening");
    const tails = [upgrade, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"];
    await Promise.all(
      tails.map(async (tail) => {
        const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
        socket.write(get("/never") + tail);
        await once(socket.resume(), "close");
      }),
    );
    await new Promise((resolve) => server.close(resolve));
  });

  it("end the connection where their headers are too many, of one and of those that wait", async () => {
    const fields = (count: number) => Array.from({ length: count }, (_, n) => `a${n}: b\r\n`).join("");
    const withFields = (count: number) => `GET /nothing HTTP/1.1\r\nHost: x\r\n${fields(count)}\r\n`;
    const one = open(withFields(200));
    await once(one.socket, "close");
    assert.deepEqual(one.statuses(), [431]);
    const few = open(withFields(150).repeat(4));
    await eventually(() => few.statuses().length === 4);
    few.socket.destroy();
    const many = open(withFields(150).repeat(10));
    await once(many.socket, "close");
    assert.ok(many.statuses().length < 10);
  });

  it("leave a connection free for the socket of who was answered on it", async () => {
    const { socket, statuses } = open(get("/health/live"));
    await once(socket, "data");
    socket.write(upgrade);
    await eventually(() => statuses().includes(101));
    assert.deepEqual(statuses(), [200, 101]);
    socket.destroy();
  });

  it("are served one after another, and so many of them end the connection", async () => {
    const { socket, statuses } = open(get("/openapi.json").repeat(1_400));
    await eventually(() => socket.closed);
    assert.ok(statuses().length <= 2, `${statuses().length} responses`);
    assert.equal((await api.get("/api/v1/limits")).status, 200);
  });
});
