import assert from "node:assert/strict";
import { disposableEmailBlocklist } from "disposable-email-domains-js";
import { isDisposable } from "../../src/domain/accounts/auth/registration.ts";

const NONE = { allow: [], deny: [] };
const at = (domain: string) => `ada@${domain}`;

describe("disposable addresses", () => {
  it("are those of more than 130 providers", () => {
    const domains = disposableEmailBlocklist();
    assert.ok(domains.length > 130, String(domains.length));
    for (const domain of domains) assert.ok(isDisposable(at(domain), NONE), domain);
  });

  it("are known in any case and under any sub-domain", () => {
    for (const domain of ["mailinator.com", "MAILINATOR.COM", "x.mailinator.com", "a.b.Mailinator.com"]) {
      assert.ok(isDisposable(at(domain), NONE), domain);
    }
  });

  it("are not those whose domain only looks like a listed one", () => {
    for (const domain of ["xmailinator-corp.com", "mailinator.com.example.org", "com", "example.com"]) {
      assert.ok(!isDisposable(at(domain), NONE), domain);
    }
    for (const domain of ["gmail.com", "proton.me", "duck.com", "privaterelay.appleid.com", "outlook.com"]) {
      assert.ok(!isDisposable(at(domain), NONE), domain);
    }
    assert.ok(!isDisposable("mailinator.com@example.com", NONE));
  });

  it("are also what the operator denies, and never what the operator allows", () => {
    const lists = {
      allow: ["Good.mailinator.com", "example.net"],
      deny: ["Example.org", "bad.example.net", "Bücher.de"],
    };
    for (const domain of [
      "example.org",
      "a.EXAMPLE.org",
      "bad.example.net",
      "mailinator.com",
      "xn--bcher-kva.de",
    ]) {
      assert.ok(isDisposable(at(domain), lists), domain);
    }
    for (const domain of ["good.mailinator.com", "x.good.mailinator.com", "example.net", "a.example.net"]) {
      assert.ok(!isDisposable(at(domain), lists), domain);
    }
  });
});
