import assert from "node:assert/strict";
import { sql } from "kysely";
import { checkDueDomains } from "../../src/domain/accounts/domains/transition.ts";
import { cnameTargetOf, txtNameOf, txtValueOf } from "../../src/domain/accounts/domains/known.ts";
import { aName, domainStore, RULES } from "../support/domains/server.ts";
import { startDomainDns } from "../support/domains/pebble.ts";
import { openMemoryDatabase } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";

type Row = { id: string; tenantId: string; domain: string; label: string; token: string };

describe("the holder of a custom domain", () => {
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

  /** Makes the name prove these rows, by a CNAME of the first or by addresses. */
  const prove = (rows: readonly Row[], byAddress = false): void => {
    const [{ domain, label }] = rows as [Row];
    const values = rows.map(({ token }) => txtValueOf(token));
    dns.set(txtNameOf(domain), "TXT", values);
    dns.set(domain, "CNAME", byAddress ? undefined : [cnameTargetOf(label, RULES.suffix)]);
    dns.set(domain, "A", byAddress ? ["192.0.2.7"] : undefined);
  };
  const check = async ({ id }: Row): Promise<void> => {
    await store.change(id, sql`next_check_at = now()`);
    await checkDueDomains(store.checks);
  };
  const read = async ({ tenantId }: Row) => (await store.read(tenantId))[0]!;
  const statusOf = async (row: Row) => (await read(row)).status;
  /** As if the last look at it was some time ago. */
  const wait = (row: Row) => store.change(row.id, sql`failing_since = failing_since - interval '1 hour'`);
  /** A name that one tenant holds and another one claims. */
  const two = async (): Promise<[held: Row, claim: Row]> => {
    const domain = aName();
    const held = await store.add(await store.aTenant(), domain);
    prove([held]);
    await check(held);
    assert.equal(await statusOf(held), "ACTIVE");
    return [held, await store.add(await store.aTenant(), domain)];
  };
  const acts = async ({ id }: Row): Promise<unknown[]> => {
    const { rows } = await store.transact(({ db }) =>
      sql<{ action: string; data: { change?: string } }>`
        select action, data from audit_log where target_id = ${id} order by id`.execute(db),
    );
    return rows.map(({ action, data }) => [action.replace("custom_domain.", ""), data.change]);
  };

  it("gives it up at once to the tenant that DNS proves by two looks, with its certificate", async () => {
    const [held, claim] = await two();
    await store.transact(({ db }) =>
      sql`insert into custom_domain_certificates
        (domain_id, tenant_id, chain, sealed_key, issuer, not_before, not_after, renew_at, created_at)
        values (${held.id}::uuid, ${held.tenantId}::uuid, 'c', 'k', 'i', now(), now(), now(), now())`.execute(
        db,
      ),
    );
    prove([claim]);
    await check(claim);
    assert.deepEqual([await statusOf(held), await statusOf(claim)], ["ACTIVE", "PENDING"]);
    assert.match((await read(claim)).checkError!, /another tenant/);
    await wait(held);
    await check(claim);
    const [before, after] = [await read(held), await read(claim)];
    assert.deepEqual([before.status, after.status], ["SUSPENDED", "ACTIVE"]);
    assert.deepEqual([before.certificate, before.sslStatus, after.checkError], [null, "NONE", null]);
    assert.match(before.checkError!, /proved it another tenant's/);
    assert.deepEqual((await acts(held)).at(-1), ["suspended", "LOST"]);
  });

  it("keeps it by one answer that lies, and by a check that runs twice", async () => {
    const [held, claim] = await two();
    prove([claim]);
    await check(claim);
    await check(claim);
    await store.change(claim.id, sql`next_check_at = now()`);
    await Promise.all([checkDueDomains(store.checks), checkDueDomains(store.checks)]);
    assert.deepEqual([await statusOf(held), await statusOf(claim)], ["ACTIVE", "PENDING"]);
    prove([held]);
    await check(held);
    assert.equal((await read(held)).failingSince, null);
    prove([claim]);
    await check(claim);
    assert.deepEqual([await statusOf(held), await statusOf(claim)], ["ACTIVE", "PENDING"]);
  });

  it("keeps it while DNS proves both, or only a part of the other", async () => {
    const [held, claim] = await two();
    prove([held, claim], true);
    for (let n = 0; n < 3; n++) {
      await check(claim);
      await wait(held);
    }
    assert.deepEqual([await statusOf(held), await statusOf(claim)], ["ACTIVE", "PENDING"]);
    assert.equal((await read(held)).failingSince, null);
    prove([claim], true);
    dns.set(claim.domain, "A", ["192.0.2.8"]);
    for (let n = 0; n < 3; n++) {
      await check(claim);
      await wait(held);
    }
    assert.deepEqual([await statusOf(held), await statusOf(claim)], ["ACTIVE", "PENDING"]);
    prove([claim], true);
    await check(claim);
    await wait(held);
    await check(claim);
    assert.deepEqual([await statusOf(held), await statusOf(claim)], ["SUSPENDED", "ACTIVE"]);
  });

  it("keeps it from a tenant that may have no domain, whatever DNS proves", async () => {
    const [held, claim] = await two();
    await store.transact(({ db }) =>
      sql`update tenants set approval_status = 'SUSPENDED' where id = ${claim.tenantId}::uuid`.execute(db),
    );
    prove([claim]);
    for (let n = 0; n < 3; n++) {
      await check(claim);
      await wait(held);
    }
    assert.deepEqual([await statusOf(held), await statusOf(claim)], ["ACTIVE", "PENDING"]);
  });
});
