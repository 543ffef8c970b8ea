import assert from "node:assert/strict";
import type { OutboundSettings } from "../../src/config.ts";
import { createWebhookSender } from "../../src/platform/webhook-sender.ts";
import { NOT_PUBLIC } from "../support/webhooks/blocked-addresses.ts";
import { connectionsBegunBy, type RawEndpoint, startRawEndpoint } from "../support/webhooks/raw-endpoint.ts";

/** Ways to write an address of this machine; `reaches`: that a switch for development lets it through. */
const SPELLINGS: readonly { host: string; reaches: boolean }[] = [
  { host: "127.0.0.1", reaches: true },
  { host: "127.1", reaches: true },
  { host: "127.0.1", reaches: true },
  { host: "2130706433", reaches: true },
  { host: "0x7f000001", reaches: true },
  { host: "0x7F.0x00.0x00.0x01", reaches: true },
  { host: "0x7f.1", reaches: true },
  { host: "017700000001", reaches: true },
  { host: "0177.0.0.01", reaches: true },
  { host: "127.0.0.1.", reaches: true },
  { host: "%31%32%37.0.0.1", reaches: true },
  { host: "１２７.０.０.１", reaches: true },
  { host: "①②⑦.⓪.⓪.①", reaches: true },
  { host: "127。0。0。1", reaches: true },
  { host: "[::1]", reaches: true },
  { host: "[0:0:0:0:0:0:0:1]", reaches: true },
  { host: "[::ffff:127.0.0.1]", reaches: true },
  { host: "[::ffff:7f00:1]", reaches: true },
  { host: "localhost", reaches: true },
  { host: "LOCALHOST", reaches: true },
  { host: "ⓛocalhost", reaches: true },
  { host: "%6c%6fcalhost", reaches: true },
  { host: "laurel.localhost", reaches: true },
  { host: "localhost.", reaches: false },
  { host: "0", reaches: false },
  { host: "0.0.0.0", reaches: false },
  { host: "[::]", reaches: false },
  { host: "[::127.0.0.1]", reaches: false },
  { host: "[::1%25lo]", reaches: false },
  { host: "user:password@127.0.0.1", reaches: false },
  { host: "@127.0.0.1", reaches: false },
  { host: "example.com\\@127.0.0.1", reaches: false },
  { host: "127.0.0.1\t", reaches: false },
];

const STRICT: OutboundSettings = { allowCidrs: [], ports: [443, 8443], allowLocal: false };
const LOCAL: OutboundSettings = { ...STRICT, allowLocal: true };

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

  for (const { host, reaches } of SPELLINGS)
    it(`is not fooled by ${JSON.stringify(host)}`, async () => {
      const earlier = endpoint.connections;
      for (const scheme of ["http", "https"]) {
        const url = `${scheme}://${host}:${endpoint.port}/`;
        const begun = await connectionsBegunBy(async () => {
          const outcome = await send({ ...STRICT, ports: [endpoint.port] }, url);
          assert.equal(outcome.isRefused, true);
        });
        assert.equal(begun, 0);
      }
      assert.equal(endpoint.connections, earlier);
      const { isSuccess } = await send(LOCAL, `http://${host}:${endpoint.port}/`);
      assert.equal(isSuccess, reaches, "with the switch for development");
      assert.equal(endpoint.connections, earlier + (reaches ? 1 : 0));
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
