import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import type { App } from "../../src/app.ts";
import type { Actor } from "../../src/domain/kernel/caller.ts";
import type { RowScope } from "../../src/domain/kernel/work.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { eventually } from "../support/eventually.ts";
import { madeOnce } from "../support/made.ts";

/** So large that it is read in several slices. */
const RULES = 1_500;

const aDocument = {
  format: "laurel/1",
  rules: Array.from({ length: RULES }, (_, i) => ({
    status: "DRAFT",
    rule: {
      key: `rule-${i}`,
      name: "A rule",
      triggers: [{ kind: "EVENT", eventTypes: ["goal"] }],
      conditions: { all: [{ type: "event_property", path: "kind", op: "eq", value: "x".repeat(1_000) }] },
      actions: [{ type: "grant_xp", amount: 1 }],
    },
  })),
};

describe("a client that goes before it was answered", () => {
  const api = madeOnce(startApp);
  const tenant = madeOnce(() => aTenant(api));

  /** A server whose imports wait until `released`, and what their transactions know of their requests. */
  const aServer = async (released: Promise<void>) => {
    const seen: Actor["waits"][] = [];
    const transactAs: App["transactAs"] = (rowScope: RowScope) => async (run) => {
      if (rowScope.role === "web") {
        seen.push(rowScope.by?.waits);
        await released;
        rowScope.by?.waits?.signal.throwIfAborted();
      }
      return api.app.transactAs(rowScope)(run);
    };
    return { url: (await anotherServer(api, {}, { transactAs })).url, seen };
  };

  const importing = async (url: string, body: string) => {
    const { port } = new URL(url);
    const socket = connect(Number(port), "127.0.0.1");
    await once(socket, "connect");
    const head = [
      "POST /api/v1/config/import HTTP/1.1",
      "Host: localhost",
      `X-API-Key: ${tenant.key}`,
      "Content-Type: application/json",
      `Content-Length: ${Buffer.byteLength(body)}`,
    ];
    socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
    return socket;
  };

  it("is known to have gone to what waits for its turn, with the bytes that it had sent", async () => {
    const released = Promise.withResolvers<void>();
    const { url, seen } = await aServer(released.promise);
    const body = JSON.stringify({ document: { format: "laurel/1" } });
    const request = new AbortController();
    const answer = fetch(`${url}/api/v1/config/import`, {
      method: "POST",
      headers: { "X-API-Key": tenant.key, "Content-Type": "application/json" },
      body,
      signal: request.signal,
    });
    const waits = await eventually(() => seen[0]);
    assert.deepEqual([waits.bytes, waits.signal.aborted], [Buffer.byteLength(body), false]);
    request.abort();
    await assert.rejects(answer, { name: "AbortError" });
    await eventually(() => waits.signal.aborted);
    released.resolve();
  });

  it("is known to have gone also when that was while its body was being read", async () => {
    const { url, seen } = await aServer(Promise.resolve());
    const socket = await importing(url, JSON.stringify({ document: aDocument }));
    socket.on("error", () => undefined);
    const waits = await eventually(() => seen[0]);
    await eventually(() => waits.signal.aborted);
    socket.destroy();
  });
});
