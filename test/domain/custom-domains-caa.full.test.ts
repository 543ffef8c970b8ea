import assert from "node:assert/strict";
import { sql } from "kysely";
import { AcmeFailure, orderDueCertificates } from "../../src/domain/accounts/domains/order.ts";
import { caaProblem, type CaaRecord, lookForCaa } from "../../src/domain/accounts/domains/states.ts";
import { checkDueDomains } from "../../src/domain/accounts/domains/transition.ts";
import { cnameTargetOf, txtNameOf, txtValueOf } from "../../src/domain/accounts/domains/known.ts";
import { createDnsRecords } from "../../src/platform/dns-records.ts";
import { aName, domainStore, RULES, secretBox } from "../support/domains/server.ts";
import { type DomainDns, startDomainDns } from "../support/domains/pebble.ts";
import { openMemoryDatabase } from "../support/domain/domain.ts";
import { selfSigned } from "../support/webhooks/receiver.ts";
import { madeOnce } from "../support/made.ts";

const OURS = ["ca.example.com"];
const DAY_MS = 86_400_000;

describe("CAA records", () => {
  const records = (...texts: string[]): CaaRecord[] =>
    texts.map((text) => {
      const [, flags, tag = "", value = ""] = /^(\d+) (\S+) (.*)$/.exec(text)!;
      return { isCritical: (Number(flags) & 128) !== 0, tag, value };
    });
  const problem = (...texts: string[]) => caaProblem(records(...texts), OURS);

  it("allow the authority where they name it, whatever the spelling", () => {
    for (const value of [
      "ca.example.com",
      "CA.Example.COM",
      "  ca.example.com  ",
      "ca.example.com;",
      "ca.example.com; accounturi=https://ca.example.com/a/1",
      "ca.example.com ; validationmethods=dns-01,http-01",
      "ca.example.com; ValidationMethods = http-01",
    ])
      assert.equal(problem(`0 issue ${value}`), undefined, value);
    assert.equal(problem("128 issue ca.example.com"), undefined, "a critical one that is understood");
    assert.equal(problem("0 ISSUE other.example.com", "0 Issue ca.example.com"), undefined);
  });

  it("allow nobody whom they do not name, once they name somebody, or nobody at all", () => {
    assert.match(problem("0 issue other.example.com")!, /allow other\.example\.com .*not ca\.example\.com/);
    assert.match(problem("0 issue ;")!, /allow nobody/);
    assert.match(problem("0 issue ")!, /allow nobody/);
    assert.match(problem("0 issue %%%%%; x=y")!, /allow nobody/);
    for (const near of ["example.com", "x.ca.example.com", "ca.example.com.evil.com", "ca.example.co"])
      assert.notEqual(problem(`0 issue ${near}`), undefined, near);
  });

  it("say nothing of other names by what they say of wildcards, reports and mails", () => {
    assert.equal(problem("0 issuewild other.example.com", "0 iodef mailto:a@example.com"), undefined);
    assert.equal(problem("0 issue ca.example.com", "0 issuewild ;"), undefined);
    assert.equal(problem("0 contactemail a@example.com", "0 whatever x"), undefined);
    assert.notEqual(problem("0 issuewild ca.example.com", "0 issue ;"), undefined);
  });

  it("forbid everything by a critical one that nobody understands", () => {
    assert.match(problem("0 issue ca.example.com", "128 future x")!, /critical/);
    assert.match(problem("129 future x")!, /critical/);
    assert.equal(problem("1 future x"), undefined, "other flags mean nothing");
  });

  it("allow only the ways that they name", () => {
    assert.match(problem("0 issue ca.example.com; validationmethods=dns-01")!, /other ways than http-01/);
    assert.equal(
      problem("0 issue ca.example.com; validationmethods=dns-01", "0 issue ca.example.com"),
      undefined,
    );
  });
});

describe("CAA records in DNS", () => {
  let dns: DomainDns;
  before(async () => {
    dns = await startDomainDns();
  });
  after(() => dns.close());
  const look = (domain: string, names: readonly string[] = OURS) =>
    lookForCaa(createDnsRecords([dns.address]), domain, names);

  it("count from the nearest name that has some, up to the top", async () => {
    const domain = `a.b.${aName()}`;
    assert.deepEqual(await look(domain), { caa: "OK", caaError: null });
    const top = domain.split(".").slice(2).join(".");
    dns.set(top, "CAA", ['0 issue "other.example.com"']);
    const { caa, caaError } = await look(domain);
    assert.equal(caa, "REFUSED");
    assert.match(caaError!, new RegExp(`the CAA records of ${top.replaceAll(".", "\\.")} allow other`));
    dns.set(`b.${top}`, "CAA", ['0 issue "ca.example.com"']);
    assert.equal((await look(domain)).caa, "OK", "those of the top count no more");
    dns.set(domain, "CAA", ['0 issue ";"']);
    assert.equal((await look(domain)).caa, "REFUSED");
  });
});

describe("custom domains with CAA records", () => {
  let dns: DomainDns;
  let store: ReturnType<typeof domainStore>;
  const database = madeOnce(openMemoryDatabase);
  before(async () => {
    dns = await startDomainDns();
    store = domainStore(database, dns.address);
  });
  after(async () => {
    await dns.close();
    await database.close();
  });

  /** Checks domains, and orders from an authority that issues at once. */
  const stage = async () => {
    const tenantId = await store.aTenant();
    const row = await store.add(tenantId, aName());
    dns.set(txtNameOf(row.domain), "TXT", [txtValueOf(row.token)]);
    dns.set(row.domain, "CNAME", [cnameTargetOf(row.label, RULES.suffix)]);
    let orders = 0;
    let isRefusing = false;
    const { key, cert } = selfSigned({ names: [row.domain] });
    const acme = {
      directoryUrl: "https://ca.example.com/dir",
      newAccountKey: async () => "a key",
      issue: async () => {
        if (isRefusing) throw new AcmeFailure("the authority is busy");
        orders++;
        const times = {
          notBefore: new Date(Date.now() - DAY_MS),
          notAfter: new Date(Date.now() + 80 * DAY_MS),
        };
        return { accountUrl: "https://ca.example.com/a", chainPem: cert, keyPem: key, issuer: "x", ...times };
      },
    };
    const { transact, checks } = store;
    const log = {
      warn: () => assert(isRefusing),
      error: (_: object, message: string) => assert.fail(message),
    };
    const order = () =>
      orderDueCertificates({ transact, acme, secretBox, log, dns: checks.dns, caaNames: OURS });
    const check = async () => {
      await store.change(row.id, sql`next_check_at = now()`);
      await checkDueDomains({ ...checks, hasOwnCertificates: true });
    };
    const read = async () => (await store.read(tenantId))[0]!;
    const counted = async () => {
      const { rows } = await transact(({ db }) =>
        sql`select from acme_orders where domain = ${row.domain}`.execute(db),
      );
      return rows.length;
    };
    const again = () => store.change(row.id, sql`next_order_at = now()`);
    const refuse = () => void (isRefusing = true);
    return { ...row, order, check, read, counted, again, refuse, orders: () => orders };
  };

  it("are verified, say what forbids their certificate, and order none until it is mended", async () => {
    const it = await stage();
    dns.set(it.domain, "CAA", ['0 issue "other.example.com"']);
    await it.check();
    const seen = await it.read();
    assert.deepEqual([seen.status, seen.caa], ["VERIFIED", "REFUSED"]);
    assert.match(seen.checkError!, /allow other\.example\.com/);
    for (let n = 0; n < 7; n++) {
      await it.again();
      await it.order();
    }
    const refused = await it.read();
    assert.deepEqual([refused.sslStatus, refused.orderFailures, it.orders()], ["FAILED", 0, 0]);
    assert.match(refused.sslError!, /CAA records of .* allow other\.example\.com/);
    assert.equal(await it.counted(), 0, "what was not ordered counts towards no limit");
    dns.set(it.domain, "CAA", ['0 issue "ca.example.com"']);
    await it.again();
    await it.order();
    const issued = await it.read();
    assert.deepEqual([issued.status, issued.sslError, it.orders()], ["ACTIVE", null, 1]);
    assert.deepEqual([issued.caa, issued.checkError], ["OK", null], "as the order has seen, before a check");
  });

  it("say after an order what it has seen of them, issued or not, and of other records nothing", async () => {
    const it = await stage();
    dns.set(it.domain, "CAA", ['0 issue ";"']);
    await it.check();
    assert.deepEqual((await it.read()).caa, "REFUSED");
    dns.set(it.domain, "CAA", "SERVFAIL");
    await it.again();
    await it.order();
    const silent = await it.read();
    assert.deepEqual([silent.sslStatus, silent.caa, silent.checkError], ["ISSUED", "UNKNOWN", null]);
    dns.set(it.domain, "CAA", ['0 issue ";"']);
    dns.set(txtNameOf(it.domain), "TXT", ["another"]);
    await it.check();
    dns.set(it.domain, "CAA", ['0 issue "ca.example.com"']);
    await it.again();
    it.refuse();
    await it.order();
    const failed = await it.read();
    assert.deepEqual([failed.sslStatus, failed.caa], ["RENEWING", "OK"]);
    assert.match(failed.checkError!, /only other TXT records/);
  });

  it("are served on with the certificate that they have, when a renewal is forbidden", async () => {
    const it = await stage();
    await it.check();
    await it.order();
    dns.set(it.domain, "CAA", ['0 issue ";"']);
    await it.check();
    await it.again();
    await it.order();
    const { status, sslStatus, sslError, certificate } = await it.read();
    assert.deepEqual([status, sslStatus], ["ACTIVE", "RENEWING"]);
    assert.match(sslError!, /allow nobody/);
    assert.notEqual(certificate, null);
  });

  it("leave it to the authority where DNS gives no answer about them", async () => {
    const it = await stage();
    dns.set(it.domain, "CAA", "SILENCE");
    await it.check();
    assert.deepEqual([(await it.read()).status, (await it.read()).caa], ["VERIFIED", "UNKNOWN"]);
    await it.order();
    assert.deepEqual([(await it.read()).status, it.orders()], ["ACTIVE", 1]);
  });
});
