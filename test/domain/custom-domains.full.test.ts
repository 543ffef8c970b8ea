import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sql } from "kysely";
import { AcmeFailure, isOrderDue, orderDueCertificates } from "../../src/domain/accounts/domains/order.ts";
import { checkDueDomains } from "../../src/domain/accounts/domains/transition.ts";
import { cnameTargetOf, txtNameOf, txtValueOf } from "../../src/domain/accounts/domains/known.ts";
import { createAcme } from "../../src/platform/acme.ts";
import { aName, domainStore, RULES, secretBox } from "../support/domains/server.ts";
import { startDomainDns } from "../support/domains/pebble.ts";
import { openMemoryDatabase } from "../support/domain/domain.ts";
import { eventually } from "../support/eventually.ts";
import { temporaryDir } from "../support/processes/process.ts";
import { selfSigned } from "../support/webhooks/receiver.ts";
import { madeOnce } from "../support/made.ts";

describe("custom domains in the database", () => {
  let store: ReturnType<typeof domainStore>;
  const database = madeOnce(openMemoryDatabase);
  const dns = madeOnce(() => startDomainDns());
  before(async () => {
    store = domainStore(database, dns.address);
  });
  after(async () => {
    await dns.close();
    await database.close();
  });

  const made = async (tenantId: string, domain = aName()) => {
    const row = await store.add(tenantId, domain);
    dns.set(txtNameOf(domain), "TXT", [txtValueOf(row.token)]);
    return row;
  };

  it("lead here by their CNAME or by addresses that are all ours", async () => {
    const tenantId = await store.aTenant();
    const rows = [];
    for (let n = 0; n < 5; n++) rows.push(await made(tenantId));
    const [byName, byFour, byBoth, other, foreign] = rows.map(({ domain }) => domain);
    dns.set(byName!, "CNAME", [cnameTargetOf(rows[0]!.label, RULES.suffix).toUpperCase()]);
    dns.set(byFour!, "A", ["192.0.2.7"]);
    dns.set(byBoth!, "A", ["192.0.2.7"]);
    dns.set(byBoth!, "AAAA", ["2001:db8:0:0::7"]);
    dns.set(other!, "A", ["192.0.2.7", "192.0.2.8"]);
    dns.set(foreign!, "CNAME", [cnameTargetOf(rows[0]!.label, RULES.suffix)]);
    await checkDueDomains(store.checks);
    const states = new Map((await store.read(tenantId)).map(({ domain, status }) => [domain, status]));
    assert.deepEqual(
      [byName, byFour, byBoth, other, foreign].map((domain) => states.get(domain!)),
      ["ACTIVE", "ACTIVE", "ACTIVE", "PENDING", "PENDING"],
    );
  });

  it("are one tenant's, of several that prove a name at once", async () => {
    const domain = aName();
    const tenants = [await store.aTenant(), await store.aTenant(), await store.aTenant()];
    const rows = [];
    for (const tenant of tenants) rows.push(await store.add(tenant, domain));
    dns.set(
      txtNameOf(domain),
      "TXT",
      rows.map(({ token }) => txtValueOf(token)),
    );
    dns.set(domain, "A", ["192.0.2.7"]);
    await Promise.all([checkDueDomains(store.checks), checkDueDomains(store.checks)]);
    const states = (await Promise.all(tenants.map(store.read))).map(([row]) => row!);
    assert.deepEqual(states.map(({ status }) => status).toSorted(), ["ACTIVE", "PENDING", "PENDING"]);
    for (const { status, checkError } of states)
      if (status === "PENDING") assert.match(checkError ?? "", /another tenant/);
  });

  it("hold no transaction while DNS servers are silent, and stay as they are", async () => {
    const tenantId = await store.aTenant();
    const { id, domain } = await made(tenantId);
    await store.change(id, sql`status = 'ACTIVE', failing_since = now() - interval '9 days'`);
    dns.set(txtNameOf(domain), "TXT", "SILENCE");
    dns.set(domain, "CNAME", "SILENCE");
    const checked = checkDueDomains(store.checks);
    await eventually(() => dns.asked.includes(txtNameOf(domain)));
    const startMs = performance.now();
    await store.transact(({ db }) => sql`select 1`.execute(db));
    assert(performance.now() - startMs < 2_000, "the database is free meanwhile");
    await checked;
    const [row] = await store.read(tenantId);
    assert.deepEqual([row!.status, row!.txt, row!.routing], ["ACTIVE", "UNKNOWN", "UNKNOWN"]);
  });

  describe("whose certificate authority misbehaves", () => {
    const { key, cert } = selfSigned({ names: ["localhost"] });
    let directory: Awaited<ReturnType<typeof temporaryDir>>;
    let server: Server;
    let answered: () => void = () => undefined;
    before(async () => {
      directory = await temporaryDir();
      await writeFile(join(directory.path, "ca.pem"), cert);
      server = createServer({ key, cert }, (request, response) => {
        answered();
        if (request.url === "/hangs") return;
        if (request.url === "/away") return void response.writeHead(302, { location: "/target" }).end();
        if (request.url === "/target") assert.fail("a redirect was followed");
        // An answer without an end.
        response.writeHead(200, { "content-type": "application/json" });
        const timer = setInterval(() => response.write("x".repeat(100_000)), 1);
        response.on("close", () => clearInterval(timer));
      });
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
    });
    after(async () => {
      server.closeAllConnections();
      server.close();
      await directory.remove();
    });

    const order = async (path: string) => {
      const tenantId = await store.aTenant();
      const { id } = await made(tenantId);
      await store.change(id, sql`status = 'VERIFIED', next_check_at = null, next_order_at = now()`);
      const { port } = server.address() as AddressInfo;
      const acme = createAcme({
        directoryUrl: `https://localhost:${port}${path}`,
        email: undefined,
        caFile: join(directory.path, "ca.pem"),
        tlsPort: 0,
      });
      const warned: object[] = [];
      const log = {
        warn: (fields: object) => void warned.push(fields),
        error: (fields: object) => assert.fail(JSON.stringify(fields)),
      };
      const { transact, checks } = store;
      const parts = { transact, acme, secretBox, log, dns: checks.dns, caaNames: ["ca.example.com"] };
      const run = (signal = new AbortController().signal) => orderDueCertificates({ ...parts, signal });
      return { tenantId, id, acme, warned, run };
    };

    it("fail in time, and hold no transaction meanwhile; nobody else orders the same", async () => {
      const { tenantId, run } = await order("/hangs");
      const asked = new Promise<void>((resolve) => (answered = resolve));
      const ordered = run();
      await asked;
      const startMs = performance.now();
      await store.transact(({ db }) => sql`select 1`.execute(db));
      await run();
      assert(performance.now() - startMs < 3_000, "another worker finds nothing to do");
      await ordered;
      const [row] = await store.read(tenantId);
      assert.deepEqual([row!.sslStatus, row!.orderFailures], ["FAILED", 1]);
      assert.match(row!.sslError ?? "", /gives no answer/);
    });

    it("keep no process from stopping: the order is given back, and due at once", async () => {
      const { tenantId, id, run, warned } = await order("/hangs");
      const asked = new Promise<void>((resolve) => (answered = resolve));
      const stopping = new AbortController();
      const ordered = run(stopping.signal);
      await asked;
      stopping.abort();
      const startMs = performance.now();
      await ordered;
      assert(performance.now() - startMs < 5_000, "it does not wait for the authority");
      assert.deepEqual(warned, []);
      const [row] = await store.read(tenantId);
      assert.equal(row!.orderFailures, 0);
      const { rows } = await store.transact(({ db }) =>
        sql`select from custom_domains d where id = ${id}::uuid and ${isOrderDue(new Date())}`.execute(db),
      );
      assert.equal(rows.length, 1, "it is due");
      await store.change(id, sql`next_order_at = null`);
    });

    for (const [path, what] of [
      ["/away", "redirects"],
      ["/endless", "answers without end"],
    ] as const)
      it(`fail on ${what}`, async () => {
        const { tenantId, run, warned } = await order(path);
        await run();
        assert.equal(warned.length, 1, "the operator is told");
        const [row] = await store.read(tenantId);
        assert.equal(row!.sslStatus, "FAILED");
      });

    it("are tried again less and less often, and no more than five times an hour", async () => {
      const { tenantId, id, run } = await order("/away");
      const waits: number[] = [];
      for (let n = 0; n < 6; n++) {
        await store.change(id, sql`next_order_at = now()`);
        await run();
        const { rows } = await store.transact(({ db }) =>
          sql<{ s: number }>`select extract(epoch from next_order_at - now())::int as s
            from custom_domains where id = ${id}::uuid`.execute(db),
        );
        waits.push(Math.round(rows[0]!.s / 60));
      }
      assert.deepEqual(waits, [1, 5, 15, 60, 360, 30]);
      const [row] = await store.read(tenantId);
      assert.equal(row!.orderFailures, 5);
      assert.match(row!.sslError ?? "", /too many/);
    });

    it("say so in words of their own", async () => {
      const { acme } = await order("/away");
      const account = { keyPem: await acme.newAccountKey(), url: undefined };
      const request = { domain: "play.acme.com", account, publish: async () => undefined };
      await assert.rejects(acme.issue(request), (error: unknown) => error instanceof AcmeFailure);
    });
  });
});
