import assert from "node:assert/strict";
import { deleteDueTenants } from "../../src/domain/accounts/tenants/tenants.ts";
import { aTenant } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { madeForEach } from "../support/made.ts";
import { aMailTo } from "../support/mail/mailbox.ts";
import { putTenant } from "../support/operations/sso.ts";
import { aVerifiedDomain, claimDomain, ssoServer, verifyDomain } from "../support/sso/server.ts";

describe("a domain of single sign-on that was somebody's", () => {
  const { api, server } = ssoServer();
  const tenant = madeForEach(() => aTenant(server));

  const DOMAINS = "/api/v1/enterprise/sso/domains";
  const verify = (domain: { id: string; domain: string }, by = tenant) => verifyDomain(server, by, domain);

  it("passes on where the holder's record is missing at two looks three days apart, and another's is there", async () => {
    const other = await aTenant(server);
    const theirs = await claimDomain(server, other);
    must(await verify(theirs, other), 200);
    const mine = await claimDomain(server, tenant, theirs.domain);
    const { txtName, txtValue } = mine;
    /** Has the holder's record be missing for so long. */
    const missFor = (days: number) =>
      api.sql`update sso_domains set missing_since = now() - ${days} * interval '1 day'
        where id = ${theirs.id}::uuid`;
    const refused = async () => assertError(await verify(mine), 409, "DOMAIN_ALREADY_CLAIMED");
    const acts = async () => (await auditOf(api, theirs.id)).slice(2).map(({ action }) => action);
    await refused();
    assert.match((await aMailTo(other.email, /is missing/)).text ?? "", new RegExp(theirs.domain));
    await refused();
    assert.deepEqual(await acts(), ["sso_domain.missing"]);

    // Each record that is there again begins it anew.
    await missFor(4);
    server.dns.records.set(txtName, [[txtValue], [theirs.txtValue]]);
    await refused();
    server.dns.records.set(txtName, [[txtValue]]);
    await refused();
    await missFor(4);
    server.dns.records.set(txtName, [[theirs.txtValue]]);
    must(await verify(theirs, other), 200);
    server.dns.records.set(txtName, [[txtValue]]);
    await refused();
    await missFor(31);
    await refused();
    await missFor(2.9);
    await refused();
    await missFor(4);
    server.dns.records.set(txtName, []);
    assertError(await verify(mine), 422, "DNS_NOT_READY");

    server.dns.records.set(txtName, [[txtValue]]);
    assert.equal(must(await verify(mine), 200).status, "VERIFIED");
    assert.equal((await acts()).at(-1), "sso_domain.lost");
    await aMailTo(other.email, /another account's now/);
    const [listed] = must(await server.get(DOMAINS, { token: other.token }), 200).data;
    assert.deepEqual([listed.id, listed.status], [theirs.id, "PENDING"]);
    const log = must(await server.get("/api/v1/audit-log", { token: other.token }), 200).data;
    assert.doesNotMatch(JSON.stringify(log), new RegExp(tenant.tenantId));
    server.dns.records.set(txtName, [[theirs.txtValue], [txtValue]]);
    assertError(await verify(theirs, other), 409, "DOMAIN_ALREADY_CLAIMED");
  });

  it("is free again once its tenant is deleted", async () => {
    const domain = await aVerifiedDomain(server, tenant);
    await putTenant(tenant.tenantId, { deleteAfter: new Date(Date.now() - 1_000) });
    while ((await api.app.transact(deleteDueTenants)) > 0);
    await aVerifiedDomain(server, await aTenant(server), domain);
  });
});
