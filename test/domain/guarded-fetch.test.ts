import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:http";
import { createConnect, createGuard, createNameResolver } from "../../src/platform/guard/faults.ts";
import { createConnections } from "../../src/platform/guard/connections.ts";
import { createGuardedFetch } from "../../src/platform/sso/oidc.ts";
import { eventually } from "../support/eventually.ts";
import { listen } from "../support/http/listen.ts";

const GET = { method: "GET", headers: {}, body: undefined, redirect: "manual" } as const;

describe("requests to the identity providers of tenants", () => {
  it("are few at once of a tenant whose provider never answers, and hold up no other tenant", async () => {
    let silent = 0;
    const server = createServer((request, response) => {
      if (request.url === "/never") silent++;
      else response.end("{}");
    });
    const { url, close } = await listen(server);
    const guard = createGuard({ allowCidrs: [], allowLocal: true, ports: [] });
    const names = createNameResolver({ isLocal: guard.isLocal, servers: undefined });
    const fetchOf = createGuardedFetch(
      guard,
      createConnections(createConnect({ guard, names, ca: undefined })),
    );
    const end = new AbortController();
    const signal = end.signal;
    try {
      const hung = Array.from({ length: 300 }, () => fetchOf("slow")(`${url}/never`, { ...GET, signal }));
      const settled = Promise.allSettled(hung);
      await eventually(() => silent === 8);
      const answer = await fetchOf("quick")(`${url}/now`, GET);
      assert.equal(await answer.text(), "{}");
      assert.equal(silent, 8);
      end.abort();
      assert.ok((await settled).every(({ status }) => status === "rejected"));
    } finally {
      end.abort();
      await close();
    }
  });

  it("end with their time also while a DNS server keeps them waiting", async () => {
    const dns = createSocket("udp4").bind(0, "127.0.0.1");
    await once(dns, "listening");
    let questions = 0;
    dns.on("message", () => questions++);
    const guard = createGuard({ allowCidrs: [], allowLocal: false, ports: [443] });
    const names = createNameResolver({ isLocal: false, servers: [`127.0.0.1:${dns.address().port}`] });
    const connections = createConnections(createConnect({ guard, names, ca: undefined }));
    const end = new AbortController();
    const { signal } = end;
    const answer = createGuardedFetch(guard, connections)("slow")("https://login.acme.com/", {
      ...GET,
      signal,
    });
    const refused = assert.rejects(answer, { message: "fetch failed" });
    await eventually(() => questions === 2);
    end.abort();
    await refused;
    dns.close();
    assert.equal(questions, 2, "neither family is asked for again");
  });
});
