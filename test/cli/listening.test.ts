import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { setImmediate as turn } from "node:timers/promises";
import { listen, stopListening, whenClosed } from "../../src/cli/listening.ts";
import { range } from "../support/rooms/sdk.ts";

const CROWD = 64;
const names: [string, string] = ["HOST", "PORT"];

describe("a server that listens for a crowd", () => {
  let server: Server;
  let port: number;
  let sockets: Socket[];
  beforeEach(async () => {
    server = createServer((_request, response) => void response.end("served"));
    await listen(server, { host: "127.0.0.1", port: 0, names });
    port = (server.address() as AddressInfo).port;
    sockets = [];
  });
  afterEach(async () => {
    for (const socket of sockets) socket.destroy();
    await stopListening(server);
  });

  /** Connections that wait to be accepted: the kernel makes them, and nobody has had a turn yet. */
  const crowd = (request = ""): Socket[] => {
    sockets = range(1, CROWD).map(() => connect({ port, host: "127.0.0.1" }));
    for (const socket of sockets) socket.end(request);
    return sockets;
  };

  it("takes several connections in a turn of the event loop", async () => {
    if (process.platform !== "linux") return;
    let taken = 0;
    server.on("connection", () => void taken++);
    crowd();
    let turns = 0;
    while (taken < CROWD) {
      await turn();
      turns++;
    }
    assert.ok(turns < CROWD / 2, `${turns} turns for ${CROWD} connections`);
  });

  it("serves all that had connected before it stopped listening", async () => {
    const answers = crowd("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").map(text);
    const closed = whenClosed(server);
    await stopListening(server);
    for (const answer of await Promise.all(answers)) assert.match(answer, /served/);
    await closed;
    await assert.rejects(once(connect({ port, host: "127.0.0.1" }), "connect"), /ECONNREFUSED/);
  });

  it("is closed when the last of its connections has ended, whichever took them", async () => {
    let open = 0;
    server.on("connection", (socket: Socket) => {
      open++;
      socket.on("close", () => void open--);
    });
    for (const socket of crowd()) socket.on("error", () => undefined);
    const closed = whenClosed(server).then(() => open);
    await stopListening(server);
    assert.equal(await closed, 0);
  });

  it("does not share its port with another server", async () => {
    const other = listen(createServer(), { host: "127.0.0.1", port, names });
    await assert.rejects(other, /another process listens there.*PORT=/);
  });

  it("does not share it with one that begins at the same time either", async () => {
    const place = { host: "127.0.0.1", port, names };
    await stopListening(server);
    for (const ticks of range(0, 20)) {
      const both = [createServer(), createServer()];
      const first = listen(both[0]!, place);
      for (const _ of range(1, ticks)) await new Promise<void>((resolve) => process.nextTick(resolve));
      const results = await Promise.allSettled([first, listen(both[1]!, place)]);
      const taken = results.filter(({ status }) => status === "fulfilled");
      assert.equal(taken.length, 1, `after ${ticks} ticks`);
      for (const one of both) await stopListening(one);
    }
    await listen(server, place);
  });
});
