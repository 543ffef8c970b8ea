import assert from "node:assert/strict";
import { sql } from "kysely";
import { readOverdueRenewals, tellOfFailingRenewals } from "../../src/domain/accounts/domains/states.ts";
import { createMetrics } from "../../src/metrics.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { aName, domainStore } from "../support/domains/server.ts";
import { openMemoryDatabase } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";

const DAY_MS = 86_400_000;

describe("certificates of custom domains that are not renewed", () => {
  let store: ReturnType<typeof domainStore>;
  const database = madeOnce(openMemoryDatabase, (made) => made.close());
  before(async () => {
    store = domainStore(database);
  });

  type Given = { days: number; status?: string; error?: string | null; caa?: string; dueDays?: number };
  /** A domain of a tenant with an OWNER, an ADMIN and a DEVELOPER, whose certificate ends in some days. */
  const aDomain = async ({ days, status = "ACTIVE", error = "refused", caa = "OK", dueDays = 5 }: Given) => {
    const tenantId = await store.aTenant();
    const { id, domain } = await store.add(tenantId, aName());
    await store.change(id, sql`status = ${status}, ssl_error = ${error}, caa = ${caa}`);
    await store.transact(async ({ db }) => {
      for (const role of ["OWNER", "ADMIN", "DEVELOPER"])
        await sql`
          insert into users (id, tenant_id, email, name, password_hash, role, email_verified, created_at,
            updated_at)
          values (${newId()}::uuid, ${tenantId}::uuid, ${`${role.toLowerCase()}-${id}@example.com`}, 'Ada',
            'none', ${role}, true, now(), now())`.execute(db);
      await sql`
        insert into custom_domain_certificates
          (domain_id, tenant_id, chain, sealed_key, issuer, not_before, not_after, renew_at, created_at)
        values (${id}::uuid, ${tenantId}::uuid, 'c', 'k', 'i', now() - interval '60 days',
          now() + ${`${days} days`}::interval, now() - ${`${dueDays} days`}::interval, now())`.execute(db);
    });
    return { id, tenantId, domain };
  };
  /** Runs the job as if so many days had passed. */
  const tellIn = (days: number): Promise<void> =>
    store.transact((work) => {
      const now = new Date(work.serverNow.getTime() + days * DAY_MS);
      return tellOfFailingRenewals({ ...work, now, serverNow: now }, store.checks.mail);
    });
  const mailsOf = async ({ tenantId }: { tenantId: string }): Promise<string[]> =>
    store.transact(async ({ db }) => {
      const { rows } = await sql<{ to: string }>`
        select "to" from email_logs where tenant_id = ${tenantId}::uuid
          and template = 'domain-certificate-expiring' order by id`.execute(db);
      return rows.map(({ to }) => to.split("-")[0]!);
    });

  it("are told of 14, 7 and 1 days before, once each, to OWNERs and ADMINs", async () => {
    const one = await aDomain({ days: 20 });
    const counts: number[] = [];
    for (const days of [0, 6.5, 10, 13.5, 14, 19.5, 19.9, 21]) {
      await Promise.all([tellIn(days), tellIn(days)]);
      counts.push((await mailsOf(one)).length);
    }
    assert.deepEqual(counts, [0, 2, 2, 4, 4, 6, 6, 6]);
    assert.deepEqual(new Set(await mailsOf(one)), new Set(["owner", "admin"]));
  });

  it("are told of again after a renewal, when the next one fails", async () => {
    const one = await aDomain({ days: 5 });
    await tellIn(0);
    assert.equal((await mailsOf(one)).length, 2);
    await store.transact(({ db }) =>
      sql`update custom_domain_certificates set notice_days = null, not_after = not_after + interval '1 day'
        where domain_id = ${one.id}::uuid`.execute(db),
    );
    await tellIn(0);
    assert.equal((await mailsOf(one)).length, 4);
  });

  it("are told of while DNS records are missing, not while all is well, young, or not served", async () => {
    const degraded = await aDomain({ days: 5, status: "DEGRADED", error: null });
    const quiet = [
      await aDomain({ days: 5, error: null }),
      await aDomain({ days: 5, dueDays: -1 }),
      await aDomain({ days: 5, dueDays: 0 }),
      await aDomain({ days: 15 }),
      await aDomain({ days: -1 }),
      await aDomain({ days: 5, status: "SUSPENDED" }),
    ];
    await tellIn(0);
    assert.equal((await mailsOf(degraded)).length, 2);
    for (const [index, one] of quiet.entries()) assert.deepEqual(await mailsOf(one), [], `${index}`);
  });

  it("are counted in metrics by what is in the way, with the time that is left", async () => {
    await store.transact(({ db }) => sql`delete from custom_domains`.execute(db));
    const metrics = createMetrics();
    const text = async (): Promise<string> => (await metrics.registry.metrics()).replaceAll("laurel_", "");
    assert.doesNotMatch(await text(), /^certificates_overdue.*\{/m);
    let isFailing = true;
    metrics.watchCertificates(() =>
      isFailing ? Promise.reject(new Error("no answer")) : store.transact(readOverdueRenewals),
    );
    assert.doesNotMatch(await text(), /^certificates_overdue.*\{/m);
    isFailing = false;
    await aDomain({ days: 4 });
    await aDomain({ days: 2 });
    await aDomain({ days: 1, caa: "REFUSED" });
    await aDomain({ days: 1, dueDays: 0 });
    await aDomain({ days: 1, status: "DEGRADED" });
    const shown = await text();
    assert.match(shown, /^certificates_overdue\{cause="order"\} 2$/m);
    assert.match(shown, /^certificates_overdue\{cause="caa"\} 1$/m);
    const left = /^certificates_overdue_left_seconds\{cause="order"\} (\S+)$/m.exec(shown);
    assert.ok(Math.abs(Number(left![1]) / 86_400 - 2) < 0.1, left![1]!);
  });
});
