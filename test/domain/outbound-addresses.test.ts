import assert from "node:assert/strict";
import type { OutboundSettings } from "../../src/config.ts";
import { isPublicAddress } from "../../src/platform/guard/address.ts";
import { createGuard } from "../../src/platform/guard/url.ts";
import { createWebhookSender } from "../../src/platform/webhook-sender.ts";
import { connectionsBegunBy, type RawEndpoint, startRawEndpoint } from "../support/raw-endpoint.ts";

const NOT_PUBLIC = {
  "this network": ["0.0.0.0", "0.1.2.3"],
  loopback: ["127.0.0.1", "127.255.255.254"],
  private: ["10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1"],
  "carriers' NAT": ["100.64.0.1", "100.127.255.254"],
  "metadata of clouds": ["169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192"],
  "link-local": ["169.254.0.1"],
  "protocol assignments": ["192.0.0.1"],
  documentation: ["192.0.2.1", "198.51.100.1", "203.0.113.1"],
  "AS112 and AMT": ["192.31.196.1", "192.52.193.1", "192.175.48.1"],
  "6to4 relays": ["192.88.99.1"],
  benchmarks: ["198.18.0.1", "198.19.255.254"],
  multicast: ["224.0.0.1", "239.255.255.255"],
  reserved: ["240.0.0.1", "255.255.255.255"],
  "IPv6: unspecified and loopback": ["::", "::1"],
  "IPv6: IPv4 in it": [
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "::ffff:10.0.0.1",
    "::7f00:1",
    "::ffff:0:7f00:1",
  ],
  "IPv6: NAT64": ["64:ff9b::7f00:1", "64:ff9b:1::a00:1"],
  "IPv6: discard": ["100::1"],
  "IPv6: protocol assignments": [
    "2001::1",
    "2001:2::1",
    "2001:3::1",
    "2001:4:112::1",
    "2001:10::1",
    "2001:20::1",
  ],
  "IPv6: documentation": ["2001:db8::1", "3fff::1"],
  "IPv6: 6to4": ["2002:7f00:1::"],
  "IPv6: AS112": ["2620:4f:8000::1"],
  "IPv6: not given out": ["4000::1", "5f00::1", "e000::1"],
  "IPv6: unique local": ["fc00::1", "fd00:ec2::254"],
  "IPv6: link-local": ["fe80::1", "fe80::1%eth0", "fec0::1"],
  "IPv6: multicast": ["ff02::1"],
  "no address": ["", "example.com", "127.1", "2130706433", "0x7f000001", "1.2.3.4.5", "::g"],
} as const;

const PUBLIC = [
  "1.1.1.1",
  "8.8.8.8",
  "100.63.255.255",
  "100.128.0.1",
  "172.15.255.255",
  "172.32.0.1",
  "192.167.255.255",
  "223.255.255.254",
  "2001:4860:4860::8888",
  "2606:4700:4700::1111",
  "2a00:1450:4001::1",
  "::ffff:8.8.8.8",
] as const;

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

const problemOf = (url: string, settings: OutboundSettings = STRICT): string | undefined =>
  createGuard(settings).judge(url).problem;

describe("addresses that requests may go to", () => {
  for (const [kind, addresses] of Object.entries(NOT_PUBLIC))
    it(`are not ${kind}`, () => {
      for (const address of addresses) assert.equal(isPublicAddress(address), false, address);
    });

  it("are those of the public internet", () => {
    for (const address of PUBLIC) assert.equal(isPublicAddress(address), true, address);
  });

  it("are also those of networks that the operator lists, and nothing beside them", () => {
    const allow = ["10.1.0.0/16", "fd00:1::/32"];
    for (const address of ["10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5"])
      assert.equal(isPublicAddress(address, allow), true, address);
    for (const address of ["10.2.0.1", "127.0.0.1", "fd00:2::5", "fd00:1::5%eth0"])
      assert.equal(isPublicAddress(address, allow), false, address);
  });

  it("are in development this machine and private networks, but not what clouds tell their machines", () => {
    const { isAllowed } = createGuard(LOCAL);
    for (const address of ["127.0.0.1", "::1", "192.168.1.2", "10.0.0.1", "172.17.0.1", "fd00::1", "1.1.1.1"])
      assert.equal(isAllowed(address), true, address);
    for (const address of ["169.254.169.254", "168.63.129.16", "0.0.0.0", "224.0.0.1", "fe80::1"])
      assert.equal(isAllowed(address), false, address);
  });
});

describe("URLs that requests may go to", () => {
  it("speak https on port 443 or 8443", () => {
    for (const url of ["https://example.com", "https://example.com:443/a", "https://example.com:8443/?a=1"])
      assert.equal(problemOf(url), undefined, url);
    for (const url of [
      "http://example.com",
      "ftp://example.com",
      "file:///etc/passwd",
      "javascript:alert(1)",
    ])
      assert.match(problemOf(url) ?? "", /must (be an address that )?starts? with https:\/\//, url);
    for (const port of [0, 22, 80, 5432, 6379, 8080, 65_535])
      assert.equal(problemOf(`https://example.com:${port}/`), "must use port 443 or 8443");
    for (const url of [
      "",
      "example.com",
      "https:example.com",
      "https://",
      "https:///example.com/a",
      "//a.com",
    ])
      assert.match(problemOf(url) ?? "", /https:\/\//, url);
  });

  it("use the ports that the operator lists", () => {
    const settings = { ...STRICT, ports: [9443] };
    assert.equal(problemOf("https://example.com:9443/", settings), undefined);
    assert.equal(problemOf("https://example.com/", settings), "must use port 9443");
  });

  it("carry no credentials, no spaces, no control characters and no backslashes", () => {
    for (const url of [
      "https://a:b@example.com/",
      "https://a@example.com/",
      "https://@example.com/",
      "https://:@a.com",
    ])
      assert.equal(problemOf(url), "must not carry a user name or a password", url);
    for (const url of [
      " https://example.com/",
      "https://exa\tmple.com/",
      "https://example.com/a\r\nHost: b",
      "https://example.com\\.internal/",
      "https://example.com/\u0000",
      "https://example.com/a b",
    ])
      assert.match(problemOf(url) ?? "", /spaces, control characters or backslashes/, JSON.stringify(url));
    // In a path it is a letter like others.
    assert.equal(problemOf("https://example.com/@a"), undefined);
  });

  it("name hosts that the internet can know", () => {
    for (const host of [
      "example.com",
      "a-b.example.com",
      "a_b.example.com",
      "münchen.example",
      "1.1.1.1",
      "[2606:4700:4700::1111]",
    ])
      assert.equal(problemOf(`https://${host}/`), undefined, host);
    for (const host of [
      "redis",
      "db.internal",
      "metadata.google.internal",
      "printer.local",
      "nas.lan",
      "x.home.arpa",
      "a.localdomain",
      "wiki.corp",
      "DB.Internal",
      "ⓛocal.ⓘnternal",
    ])
      assert.equal(problemOf(`https://${host}/`), "is not public", host);
    for (const host of [
      "example.com.",
      "-a.com",
      "a..com",
      "a!b.com",
      `${"a".repeat(64)}.com`,
      `${"a.".repeat(127)}com`,
    ])
      assert.match(problemOf(`https://${host}/`) ?? "", /letters, digits and hyphens/, host);
  });

  it("have at most 2,048 characters", () => {
    const url = (length: number) => "https://example.com/".padEnd(length, "a");
    assert.equal(problemOf(url(2_048)), undefined);
    assert.equal(problemOf(url(2_049)), "must have at most 2048 characters");
  });

  it("name private hosts where private networks are allowed: their addresses decide", () => {
    const settings = { ...STRICT, allowCidrs: ["10.1.0.0/16"] };
    for (const url of ["https://hooks.internal/", "https://hooks/", "https://10.1.2.3/"])
      assert.equal(problemOf(url, settings), undefined, url);
    for (const url of ["http://hooks.internal/", "https://hooks.internal:9000/", "https://10.2.0.1/"])
      assert.ok(problemOf(url, settings), url);
  });
});

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
