import assert from "node:assert/strict";
import { spokeHttps } from "../../src/domain/accounts/domains/known.ts";

describe("who spoke https", () => {
  const TRUSTED = ["10.0.0.0/8", "2001:db8::/32"];
  const said = (remoteAddress: string | undefined, forwardedProto: unknown = "https", isTls = false) =>
    spokeHttps({ isTls, remoteAddress, forwardedProto }, TRUSTED);

  it("is told by trusted proxies and those of this machine, and by nobody else", () => {
    for (const proxy of ["10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1", "127.0.0.1", "::1"])
      assert(said(proxy), proxy);
    for (const stranger of ["203.0.113.9", "::ffff:203.0.113.9", "2001:db9::1", "", undefined, "x"])
      assert(!said(stranger), String(stranger));
  });

  it("is not whom a proxy says nothing of, or http", () => {
    for (const proto of [undefined, "http", "", "HTTPS ", ["https"]])
      assert.equal(said("10.1.2.3", proto ?? null), false);
  });

  it("is whoever spoke TLS to this server, whatever the headers say", () => {
    assert(said("203.0.113.9", "http", true));
  });
});
