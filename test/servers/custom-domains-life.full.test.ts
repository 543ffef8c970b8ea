import assert from "node:assert/strict";
import { once } from "node:events";
import { sql } from "kysely";
import { WebSocket } from "ws";
import { aTenant, aWsToken, shareApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import {
  type DomainDns,
  hasPebble,
  type Pebble,
  startDomainDns,
  startPebble,
} from "../support/domains/pebble.ts";
import {
  aName,
  type Call,
  DOMAINS,
  domainsOf,
  overHttp,
  overTls,
  shakesHands,
  type ShownDomain,
  type TlsCall,
} from "../support/domains/server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { eventually } from "../support/eventually.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { skipUnless } from "../support/made.ts";
import { freePort, temporaryDir } from "../support/processes/process.ts";

const PLAYERS = "/api/v1/players";

describe("custom domains with certificates of this server", () => {
  let dns: DomainDns;
  let pebble: Pebble;
  let directory: Awaited<ReturnType<typeof temporaryDir>> | undefined;
  let api: TestApp;
  let of: ReturnType<typeof domainsOf>;
  let [port, tlsPort] = [0, 0];
  let ca: string;
  let owner: Tenant;
  let stranger: Tenant;

  before(async function () {
    skipUnless(hasPebble(), this, "certificates are ordered from Pebble: apt install pebble");
    dns = await startDomainDns();
    [port, tlsPort] = [await freePort(), await freePort()];
    pebble = await startPebble({ httpPort: port, dns: dns.address });
    directory = await temporaryDir();
    api = await shareApp({
      DATA_DIR: directory.path,
      PORT: String(port),
      TLS_PORT: String(tlsPort),
      SSL_MODE: "acme",
      DNS_SERVERS: dns.address,
      ACME_DIRECTORY_URL: pebble.directoryUrl,
      ACME_CA_FILE: pebble.caFile,
      ACME_CAA_NAMES: "pebble.laurel-tests.com",
      ACME_EMAIL: "operator@laurel-tests.com",
      INGRESS_IPS: "",
    });
    of = domainsOf(api, dns);
    ca = await pebble.root();
    [owner, stranger] = [await aTenant(api), await aTenant(api)];
  });
  after(async () => {
    await api?.stop();
    await pebble?.stop();
    await dns?.close();
    await directory?.remove();
  });

  const call = (host: string, parts: Partial<TlsCall> = {}) => overTls({ port: tlsPort, host, ca, ...parts });
  /** As a proxy of this machine passes on what came to it by https. */
  const http = (host: string, parts: Partial<Call>) =>
    overHttp({ port, host, path: PLAYERS, headers: { "X-Forwarded-Proto": "https" }, ...parts });
  const verify = (id: string) => api.post(`${DOMAINS}/${id}/verify`, {}, { token: owner.token });
  const certificatesOf = (id: string): Promise<{ sealed_key: string; account: string }[]> => api.sql<{
    sealed_key: string;
    account: string;
  }>`
    select sealed_key, (select sealed_key from acme_accounts) as account
    from custom_domain_certificates where domain_id = ${id}::uuid`;

  it("are served once their records are there, and no more once they are removed", async () => {
    const made = await of.add(aName(), owner);
    const { id, domain, verification } = made;
    assert.equal(made.status, "PENDING");
    dns.set(verification.txtName, "TXT", ["laurel-custom-domain=something-else"]);
    await of.check(id);
    await of.until(id, owner, ({ checks }) => checks.error?.includes("only other TXT") === true);
    dns.set(verification.txtName, "TXT", [verification.txtValue]);
    await of.check(id);
    await of.until(id, owner, ({ checks }) => checks.txt === "OK" && checks.routing === "MISSING");
    await assert.rejects(call(domain), "nothing is served before the name is proved");

    of.makeRecords(made);
    await of.check(id);
    const { sslStatus, certificate } = await of.until(id, owner, ({ status }) => status === "ACTIVE");
    assert.equal(sslStatus, "ISSUED");
    assert.match(certificate!.issuer, /Pebble/);
    const [left, lifetime] = [Date.parse(certificate!.notAfter), 90 * 86_400_000];
    const renewedBefore = left - Date.parse(certificate!.renewAt);
    assert(renewedBefore >= lifetime / 3 - 2_000 && renewedBefore <= lifetime * 0.37);
    assert.match(await (await fetch(`${api.url}/metrics`)).text(), /^laurel_certificates_overdue.* 0$/m);
    assert.equal((await call(domain, { path: PLAYERS, key: owner.key })).status, 200);
    const [stored] = await certificatesOf(id);
    for (const sealed of [stored!.sealed_key, stored!.account]) assert.match(sealed, /^v1:/);

    must(await api.delete(`${DOMAINS}?id=${id}`, { token: owner.token }), 200);
    assert.equal((await certificatesOf(id)).length, 0);
    await assert.rejects(call(domain));
    const acts = (await auditOf(api, id)).map(({ action }) => action);
    for (const act of ["added", "verified", "certificate_issued", "removed"])
      assert(acts.includes(`custom_domain.${act}`), `${act} in ${acts.join()}`);
  });

  describe("one that is served", () => {
    let one: ShownDomain;
    before(async () => {
      one = await of.aDomainIn("ACTIVE", owner);
    });

    it("takes the credentials of its tenant alone, however its Host header is spelt", async () => {
      const { domain: name } = one;
      const hosts = [name, `${name}.`, name.toUpperCase(), `${name}:443`, `${name}.:${port}`];
      for (const host of hosts) {
        const theirs = await http(host, { key: stranger.key });
        assert.equal(theirs.status, 401, host);
        assert.match(theirs.body, /API_KEY_INVALID/);
        assert.equal((await http(host, { key: owner.key })).status, 200, host);
      }
      for (const send of [call, http]) {
        const projects = { path: "/api/v1/projects" };
        assert.equal((await send(name, { ...projects, token: owner.token })).status, 200);
        const refused = await send(name, { ...projects, token: stranger.token });
        assert.equal(refused.status, 401);
        assert.match(refused.body, /TOKEN_INVALID/);
      }
      assert.equal((await http("localhost", { key: stranger.key })).status, 200);
    });

    it("has nothing of the operators", async () => {
      for (const path of [
        "/metrics",
        "/v1/superadmin/tenants",
        "/superadmin/auth/login",
        "/internal/tls/ask",
      ])
        for (const send of [call, http]) assert.equal((await send(one.domain, { path })).status, 404, path);
    });

    it("is served to who asks for it in the handshake, and for nothing else in the request", async () => {
      const { domain } = one;
      const { body, status } = await call("other.example.com", { servername: domain });
      assert.equal(status, 400);
      assert.match(body, /connection was opened for/);
      assert(await shakesHands(tlsPort, domain.toUpperCase()));
      for (const name of ["localhost", "other.example.com", "acme-games.com", ""])
        assert(!(await shakesHands(tlsPort, name)), name);
    });

    it("carries rooms over its WebSockets, for players of its tenant alone", async () => {
      const { domain } = one;
      const join = { path: "/matchmake/joinOrCreate/player", method: "POST", body: {} };
      const { token } = await aWsToken(api, owner.key, "ada");
      const { token: theirs } = await aWsToken(api, stranger.key, "bob");
      for (const send of [call, http]) {
        const refused = await send(domain, { ...join, token: theirs });
        assert.equal(refused.status, 401, refused.body);
      }
      const seat = await call(domain, { ...join, token });
      assert.equal(seat.status, 200, seat.body);
      const { processId, roomId, sessionId } = JSON.parse(seat.body);
      const address = `wss://127.0.0.1:${tlsPort}/${processId}/${roomId}?sessionId=${sessionId}`;
      const options = { ca, servername: domain, headers: { host: domain } };
      const socket = new WebSocket(address, [], options);
      const [first] = (await once(socket, "message")) as [Buffer];
      assert.equal(first[0], 10, "the room has let the player in");
      socket.close();
    });

    it("gets another certificate when its time has come, without a pause", async () => {
      const { serial } = await call(one.domain);
      await of.change(one.id, sql`next_order_at = now()`);
      await of.until(
        one.id,
        owner,
        ({ certificate, sslStatus }) =>
          sslStatus === "ISSUED" && certificate!.renewAt !== one.certificate!.renewAt,
      );
      await eventually(async () => (await call(one.domain)).serial !== serial);
      assert.equal((await call(one.domain)).status, 200);
    });

    it("stays its tenant's when another one claims it, and even proves it", async () => {
      const claim = await of.add(one.domain, stranger);
      assert.notEqual(claim.verification.cnameTarget, one.verification.cnameTarget);
      assert.notEqual(claim.verification.txtValue, one.verification.txtValue);
      // The CNAME that is there leads to the first one's target alone.
      dns.set(one.verification.txtName, "TXT", [one.verification.txtValue, claim.verification.txtValue]);
      await of.check(claim.id);
      await of.until(claim.id, stranger, ({ checks }) => checks.txt === "OK" && checks.routing === "MISSING");
      dns.set(one.domain, "CNAME", [claim.verification.cnameTarget]);
      await of.check(claim.id);
      const { status } = await of.until(claim.id, stranger, ({ checks }) =>
        Boolean(checks.error?.includes("another tenant")),
      );
      assert.equal(status, "PENDING");
      of.makeRecords(one);
      assert.equal((await of.read(one.id, owner)).status, "ACTIVE");
      assertError(await api.get(`${DOMAINS}/${one.id}`, { token: stranger.token }), 404);
      assertError(await api.delete(`${DOMAINS}/${one.id}`, { token: stranger.token }), 404);
    });

    it("is degraded after three days without its records, and suspended after two weeks more", async () => {
      const { id, domain, verification } = one;
      dns.set(verification.txtName, "TXT", "SERVFAIL");
      await of.check(id);
      await of.until(id, owner, ({ checks }) => checks.txt === "UNKNOWN");
      await of.change(id, sql`next_check_at = now(), failing_since = now() - interval '9 days'`);
      await of.checkedAgain(id);
      assert.equal((await of.read(id, owner)).status, "ACTIVE", "servers without an answer change nothing");
      dns.set(verification.txtName, "TXT", undefined);
      await of.change(id, sql`next_check_at = now(), failing_since = null`);
      await of.until(id, owner, ({ checks }) => checks.txt === "MISSING");
      assert.equal((await of.read(id, owner)).status, "ACTIVE");
      await of.change(id, sql`next_check_at = now(), failing_since = now() - interval '3 days'`);
      await of.until(id, owner, ({ status }) => status === "DEGRADED");
      assert.equal((await call(domain)).status, 200, "it is served until its certificate ends");
      of.makeRecords(one);
      await of.check(id);
      await of.until(id, owner, ({ status }) => status === "ACTIVE");

      dns.set(verification.txtName, "TXT", undefined);
      const long = sql`next_check_at = now(), status = 'DEGRADED', degraded_at = now() - interval '14 days'`;
      await of.change(id, long);
      const { sslStatus, certificate } = await of.until(id, owner, ({ status }) => status === "SUSPENDED");
      assert.deepEqual([sslStatus, certificate], ["NONE", null]);
      assert.equal((await certificatesOf(id)).length, 0, "its key is gone");
      await assert.rejects(call(domain));
    });
  });

  it("without an answer to the challenge say why, and are tried again later", async () => {
    const made = await of.add(aName(), owner);
    of.makeRecords(made);
    // The authority is led elsewhere, where nobody answers.
    dns.set(made.domain, "A", ["127.0.0.2"]);
    await of.check(made.id);
    const failed = await of.until(made.id, owner, ({ sslStatus }) => sslStatus === "FAILED");
    assert.equal(failed.status, "VERIFIED");
    assert.match(failed.sslError!, /certificate authority/);
    dns.set(made.domain, "A", ["127.0.0.1"]);
    dns.set(made.domain, "CAA", ['0 issue "pebble.laurel-tests.com"']);
    must(await verify(made.id), 200);
    const { checks } = await of.until(made.id, owner, ({ status }) => status === "ACTIVE");
    assert.equal(checks.caa, "OK");
    assertError(await verify(made.id), 429, "DOMAIN_CHECK_RATE");
  });

  it("pass to the tenant that DNS proves alone by now, which gets its own certificate", async () => {
    const held = await of.aDomainIn("ACTIVE", owner);
    const claim = await of.add(held.domain, stranger);
    of.makeRecords(claim);
    await of.check(claim.id);
    await of.until(claim.id, stranger, ({ checks }) => checks.error?.includes("another tenant") === true);
    await of.change(held.id, sql`failing_since = now() - interval '1 hour'`);
    await of.check(claim.id);
    await of.until(claim.id, stranger, ({ status }) => status === "ACTIVE");
    assert.equal((await certificatesOf(held.id)).length, 0);
    const statusFor = async ({ key }: Tenant) => (await call(held.domain, { path: PLAYERS, key })).status;
    await eventually(async () => (await statusFor(stranger)) === 200);
    assert.equal(await statusFor(owner), 401);
    await aMailTo(owner.email, /another account's now/);
  });

  it("whose CAA records name another authority order nothing, until verify sees them mended", async () => {
    const made = await of.add(aName(), owner);
    of.makeRecords(made);
    dns.set(made.domain, "CAA", ['0 issue "other.example.com"']);
    await of.check(made.id);
    const failed = await of.until(made.id, owner, ({ sslStatus }) => sslStatus === "FAILED");
    assert.deepEqual([failed.status, failed.checks.caa], ["VERIFIED", "REFUSED"]);
    assert.match(failed.sslError!, /CAA records of .* allow other\.example\.com/);
    assert(!pebble.output().includes(made.domain), "the authority was not asked");
    dns.set(made.domain, "CAA", undefined);
    const { checks } = must(await verify(made.id), 200);
    assert.equal(checks.caa, "OK");
    await of.until(made.id, owner, ({ status }) => status === "ACTIVE");
  });

  it("answer no challenge that nobody has made", async () => {
    for (const path of [`/.well-known/acme-challenge/${"x".repeat(43)}`, "/.well-known/acme-challenge/../x"])
      assert.equal((await http("localhost", { path })).status, 404, path);
    assert.equal((await http("localhost", { path: "/.well-known/acme-challenge/%2e%2e%2fx" })).status, 404);
  });
});
