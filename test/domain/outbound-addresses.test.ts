import assert from "node:assert/strict";
import type { OutboundSettings } from "../../src/config/sections.ts";
import { createGuard, isPublicAddress } from "../../src/platform/guard/faults.ts";
import { NOT_PUBLIC } from "../support/webhooks/dns-server.ts";

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
