import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server } from "node:net";
import { sql } from "kysely";
import { aTenant, type Tenant } from "../support/app/app.ts";
import {
  type DomainDns,
  hasPebble,
  type Pebble,
  startDomainDns,
  startPebble,
} from "../support/domains/pebble.ts";
import { aName, DOMAINS, overHttp, type ShownDomain } from "../support/domains/server.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { skipUnless } from "../support/made.ts";
import { startTwoServers, type TwoServers } from "../support/processes/two-servers.ts";

const COUNT = 8;

/**
 * Passes connections on, to one of the ports after the other.
 * @param ports those of the servers behind it, once they are there
 */
const startBalancer = async (ports: readonly number[]): Promise<Server> => {
  let next = 0;
  const server = createServer((socket) => {
    const other = connect(ports[next++ % ports.length]!, "127.0.0.1");
    for (const one of [socket, other]) one.on("error", () => void [socket.destroy(), other.destroy()]);
    socket.pipe(other).pipe(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
};

describe("custom domains over two processes", function () {
  let dns: DomainDns;
  let pebble: Pebble;
  let two: TwoServers;
  let balancer: Server;
  let owner: Tenant;
  let other: Tenant;

  before(async function () {
    skipUnless(hasPebble(), this, "certificates are ordered from Pebble: apt install pebble");
    dns = await startDomainDns();
    const ports: number[] = [];
    balancer = await startBalancer(ports);
    const { port: httpPort } = balancer.address() as AddressInfo;
    pebble = await startPebble({ httpPort, dns: dns.address });
    two = await startTwoServers({
      env: {
        EMAIL_MODE: "off",
        DEFAULT_PLAN: "ENTERPRISE",
        SSL_MODE: "acme",
        TLS_PORT: "0",
        CUSTOM_DOMAIN_SUFFIX: "edge.laurel-tests.com",
        DNS_SERVERS: dns.address,
        ACME_DIRECTORY_URL: pebble.directoryUrl,
        ACME_CA_FILE: pebble.caFile,
      },
    });
    ports.push(...two.clients.map(({ url }) => Number(new URL(url).port)));
    [owner, other] = [await aTenant(two.clients[0]), await aTenant(two.clients[0])];
  });
  after(async () => {
    balancer?.close();
    await two?.stop();
    await pebble?.stop();
    await dns?.close();
  });

  const db = () => two.database.em.fork().getKysely();
  const client = (index: number) => two.clients[index % 2]!;
  const list = async (index: number): Promise<ShownDomain[]> =>
    must(await client(index).get(DOMAINS, { token: owner.token }), 200).data;
  const ordered = async (): Promise<string[]> => {
    const { rows } = await sql<{ domain: string }>`select domain from acme_orders`.execute(db());
    return rows.map(({ domain }) => domain);
  };

  it("order each certificate once, with one account, and renew it once", async () => {
    const made: ShownDomain[] = await Promise.all(
      Array.from({ length: COUNT }, async (_, n) =>
        must(await client(n).post(DOMAINS, { domain: aName() }, { token: owner.token }), 201),
      ),
    );
    for (const { domain, verification } of made) {
      dns.set(verification.txtName, "TXT", [verification.txtValue]);
      dns.set(domain, "CNAME", [verification.cnameTarget]);
      dns.set(domain, "A", ["127.0.0.1"]);
    }
    await sql`update custom_domains set next_check_at = now()`.execute(db());
    const areIssued = async () => (await list(1)).every(({ sslStatus }) => sslStatus === "ISSUED");
    await eventually(areIssued, { timeoutMs: 120_000, label: "all certificates are there" });
    const names = made.map(({ domain }) => domain).toSorted();
    // An order that fails is made again after a minute, and none of those that succeed is.
    assert.deepEqual([...new Set(await ordered())].toSorted(), names);
    assert.equal(issuedBy(pebble), COUNT);
    const accounts = await sql`select from acme_accounts`.execute(db());
    assert.equal(accounts.rows.length, 1);

    const before = new Map((await list(0)).map(({ id, certificate }) => [id, certificate!.renewAt]));
    await sql`update custom_domains set next_order_at = now()`.execute(db());
    const areRenewed = async () =>
      (await list(1)).every(
        ({ id, sslStatus, certificate }) => sslStatus === "ISSUED" && certificate!.renewAt !== before.get(id),
      );
    await eventually(areRenewed, { timeoutMs: 120_000, label: "all certificates are renewed" });
    assert.equal(issuedBy(pebble), 2 * COUNT);
  });

  it("pin their tenant in every process, until they are removed in one", async () => {
    const [{ id, domain }] = (await list(0)) as [ShownDomain];
    const status = async (index: number, key: string): Promise<number> => {
      const port = Number(new URL(client(index).url).port);
      const headers = { "X-Forwarded-Proto": "https" };
      return (await overHttp({ port, host: domain, path: "/api/v1/players", key, headers })).status;
    };
    for (const index of [0, 1]) {
      assert.equal(await status(index, other.key), 401);
      assert.equal(await status(index, owner.key), 200);
    }
    must(await client(0).delete(`${DOMAINS}/${id}`, { token: owner.token }), 200);
    await eventually(async () => (await status(1, other.key)) === 200, { label: "the other process knows" });
    const { rows } = await sql`
      select from custom_domain_certificates where domain_id = ${id}::uuid`.execute(db());
    assert.equal(rows.length, 0);
  });
});

/** How many certificates Pebble has issued, as it prints them. */
const issuedBy = (pebble: Pebble): number => pebble.output().match(/Issued certificate serial/g)?.length ?? 0;
