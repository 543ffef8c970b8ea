import assert from "node:assert/strict";
import type { OutboundSettings } from "../../src/config/sections.ts";
import { createWebhookSender } from "../../src/platform/webhook-sender.ts";
import { NOT_PUBLIC } from "../support/webhooks/dns-server.ts";
import { connectionsBegunBy, type RawEndpoint, startRawEndpoint } from "../support/webhooks/raw-endpoint.ts";

const STRICT: OutboundSettings = { allowCidrs: [], ports: [443, 8443], allowLocal: false };

describe("a sender that is given addresses which are not public", () => {
  let endpoint: RawEndpoint;
  before(async () => (endpoint = await startRawEndpoint(undefined, { host: "::" })));
  after(() => endpoint.close());

  const send = (settings: OutboundSettings, url: string) =>
    createWebhookSender(settings).send({ url, headers: {}, body: "{}", timeoutMs: 5_000 });

  it("connects to none of them", async () => {
    const settings = { ...STRICT, ports: [endpoint.port] };
    const sender = createWebhookSender(settings);
    const literals = Object.entries(NOT_PUBLIC).flatMap(([kind, all]) => (kind === "no address" ? [] : all));
    assert.ok(literals.length >= 44);
    for (const address of literals) {
      const host = address.includes(":") ? `[${address.replace("%", "%25")}]` : address;
      const url = `https://${host}:${endpoint.port}/`;
      const begun = await connectionsBegunBy(async () => {
        const outcome = await sender.send({ url, headers: {}, body: "{}", timeoutMs: 5_000 });
        assert.equal(outcome.isRefused, true, address);
        assert.match(outcome.error ?? "", /URL_NOT_ALLOWED/, address);
        assert.equal(outcome.isSuccess, false);
        assert.ok(await sender.check(url), address);
      });
      assert.equal(begun, 0, address);
    }
    assert.equal(endpoint.connections, 0);
    // The counter counts: this one is allowed, and waits in vain for TLS.
    const allowed = createWebhookSender({ ...settings, allowCidrs: ["127.0.0.1/32"] });
    const url = `https://127.0.0.1:${endpoint.port}/`;
    const begun = await connectionsBegunBy(async () => {
      const { isRefused } = await allowed.send({ url, headers: {}, body: "{}", timeoutMs: 300 });
      assert.equal(isRefused, false);
    });
    assert.equal(begun, 1);
    assert.equal(endpoint.connections, 1);
  });

  it("reads a URL as the parser does, whatever stands behind the host", async () => {
    for (const url of [
      `https://127.0.0.1:${endpoint.port}#@example.com/`,
      `https://127.0.0.1:${endpoint.port}?@example.com/`,
      `https://127.0.0.1:${endpoint.port}/@example.com/`,
      `https:/\\127.0.0.1:${endpoint.port}/`,
      `https:127.0.0.1:${endpoint.port}/`,
    ]) {
      const begun = await connectionsBegunBy(async () => {
        const outcome = await send({ ...STRICT, ports: [endpoint.port] }, url);
        assert.equal(outcome.isRefused, true, url);
      });
      assert.equal(begun, 0, url);
    }
  });
});
