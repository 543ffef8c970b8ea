import assert from "node:assert/strict";
import { isIP } from "node:net";
import fc from "fast-check";
import {
  canonicalAddress,
  clientAddress,
  isProtected,
  limitKeyOf,
  networkOf,
  networkText,
  overlap,
  subscriberOf,
} from "../../src/domain/kernel/networks.ts";

const network = (text: string) => {
  const found = networkOf(text);
  assert(found, text);
  return found;
};

describe("addresses", () => {
  it("of IPv4 count one by one", () => {
    assert.equal(limitKeyOf("203.0.113.7"), "203.0.113.7");
    assert.notEqual(limitKeyOf("203.0.113.7"), limitKeyOf("203.0.113.8"));
  });

  it("of one IPv6 /64 count as one, whatever their spelling", () => {
    const key = limitKeyOf("2001:db8:1:2::1");
    for (const other of [
      "2001:DB8:1:2:ffff:ffff:ffff:ffff",
      "2001:0db8:0001:0002::",
      "2001:db8:1:2::1.2.3.4",
    ])
      assert.equal(limitKeyOf(other), key, other);
    assert.notEqual(limitKeyOf("2001:db8:1:3::1"), key);
    assert.equal(limitKeyOf("fe80::1%eth0"), limitKeyOf("fe80::2"));
  });

  it("of IPv4 in IPv6 count as the IPv4 address", () => {
    for (const text of ["::ffff:203.0.113.7", "::FFFF:cb00:7107", "0:0:0:0:0:ffff:203.0.113.7"]) {
      assert.equal(limitKeyOf(text), "203.0.113.7", text);
      assert.equal(canonicalAddress(text), "203.0.113.7", text);
    }
  });

  it("have one spelling", () => {
    assert.equal(canonicalAddress("2001:0DB8:0:0:0:0:0:1"), "2001:db8::1");
    for (const text of [
      "",
      "a",
      "1.2.3",
      "1.2.3.4.5",
      "01.2.3.4",
      "1.2.3.4/32",
      "::1/64",
      "1::2::3",
      "[::1]",
    ])
      assert.equal(canonicalAddress(text), undefined, text);
  });

  it("are read and written as any other reader does", () => {
    const ipv6 = fc.oneof(
      fc.ipV6(),
      fc.ipV4().map((text) => `::ffff:${text}`),
    );
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), ipv6), (text) => {
        const canonical = canonicalAddress(text);
        assert(canonical !== undefined && isIP(canonical) !== 0);
        assert.equal(canonicalAddress(canonical), canonical);
        assert.equal(limitKeyOf(canonical), limitKeyOf(text));
        if (isIP(text) === 6 && isIP(canonical) === 6)
          assert.equal(canonical, new URL(`http://[${text}]`).hostname.slice(1, -1));
      }),
    );
  });

  it("of any text have a key", () => {
    fc.assert(fc.property(fc.string(), (text) => void limitKeyOf(text)));
  });

  it("form networks, which overlap when one holds the other", () => {
    assert.equal(networkText(network("10.1.2.3/8")), "10.0.0.0/8");
    assert.equal(networkText(network("2001:db8:1:2:3::/48")), "2001:db8:1:0:0:0:0:0/48");
    assert.equal(networkText(subscriberOf("2001:db8::5")!), "2001:db8:0:0:0:0:0:0/64");
    assert(overlap(network("10.0.0.0/8"), network("10.200.0.1")));
    assert(overlap(network("10.200.0.1"), network("10.0.0.0/8")));
    assert(!overlap(network("10.0.0.0/8"), network("11.0.0.1")));
    assert(!overlap(network("0.0.0.0/0"), network("2001:db8::1")));
    assert(overlap(network("0.0.0.0/0"), network("::ffff:1.2.3.4")));
    for (const text of ["10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8/8", "::/129", "10.0.0.0/a", "/8"])
      assert.equal(networkOf(text), undefined, text);
  });

  it("of this machine and of trusted proxies are protected, and so is a network with one of them", () => {
    const proxies = ["192.0.2.0/24", "2001:db8:5:5::9"];
    for (const text of [
      "127.0.0.1",
      "127.9.9.9",
      "::1",
      "192.0.2.200",
      "::ffff:192.0.2.1",
      "2001:db8:5:5::77",
    ])
      assert(isProtected(subscriberOf(text)!, proxies), text);
    for (const text of ["128.0.0.1", "192.0.3.1", "2001:db8:5:6::9"])
      assert(!isProtected(subscriberOf(text)!, proxies), text);
    assert(isProtected(network("192.0.0.0/16"), proxies));
  });

  describe("of clients", () => {
    const seen = (
      remoteAddress: string | undefined,
      forwardedFor: string | undefined,
      ...trusted: string[]
    ) => clientAddress({ remoteAddress, forwardedFor }, trusted);

    it("are told by no header of a client that no proxy vouches for", () => {
      assert.equal(seen("203.0.113.7", "10.0.0.1"), "203.0.113.7");
      assert.equal(seen("203.0.113.7", "10.0.0.1", "192.0.2.0/24"), "203.0.113.7");
    });

    it("are the last that no trusted proxy has; what stands to the left is not believed", () => {
      const proxies = ["127.0.0.1/32", "192.0.2.0/24"];
      assert.equal(seen("::ffff:127.0.0.1", "1.1.1.1, 203.0.113.7", ...proxies), "203.0.113.7");
      assert.equal(seen("127.0.0.1", "1.1.1.1, 203.0.113.7, 192.0.2.4", ...proxies), "203.0.113.7");
      assert.equal(seen("127.0.0.1", "192.0.2.9,192.0.2.4", ...proxies), "192.0.2.9");
      assert.equal(seen("127.0.0.1", undefined, ...proxies), "127.0.0.1");
    });

    it("are the proxy's own where it passes on what is no address", () => {
      assert.equal(seen("127.0.0.1", "1.1.1.1, unknown", "127.0.0.1"), "127.0.0.1");
      assert.equal(seen(undefined, "1.1.1.1", "127.0.0.1"), "");
    });
  });
});
