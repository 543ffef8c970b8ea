import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createConnections, Exchange } from "../../src/platform/guard/connections.ts";
import { createConnect, createGuard, createNameResolver } from "../../src/platform/guard/faults.ts";
import { startDnsServer } from "../support/webhooks/dns-server.ts";

describe("a connection that is kept for further requests", () => {
  /** The addresses at which two requests to a name arrive that has moved after the first. */
  const arrivals = async (ageMsMax?: number): Promise<(string | undefined)[]> => {
    const arrived: (string | undefined)[] = [];
    const server = createServer(({ socket }, response) => {
      arrived.push(socket.localAddress);
      response.end("{}");
    }).listen(0, "0.0.0.0");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const dns = await startDnsServer((_, family, count) =>
      family === "AAAA" ? [] : [count === 1 ? "127.0.0.1" : "127.0.0.2"],
    );
    const guard = createGuard({ allowCidrs: [], allowLocal: true, ports: [] });
    const names = createNameResolver({ isLocal: false, servers: [dns.address] });
    const connections = createConnections(createConnect({ guard, names, ca: undefined }), ageMsMax);
    const { target } = guard.judge(`http://hook.example.com:${port}/`);
    for (let i = 0; i < 2; i++) {
      const connection = connections.takeIdle(target!.origin) ?? connections.open(target!);
      const { status } = await new Exchange(connection, { path: "/", headers: [], body: "{}" }).answer;
      assert.equal(status, 200);
      connections.giveBack(connection);
    }
    connections.close();
    server.close();
    await dns.close();
    return arrived;
  };

  it("goes where the name leads once it is old, and not before", async () => {
    assert.deepEqual(await arrivals(), ["127.0.0.1", "127.0.0.1"]);
    assert.deepEqual(await arrivals(0), ["127.0.0.1", "127.0.0.2"]);
  });
});
