import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { auditOf } from "../support/app/audit.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { putOnPlan } from "../support/app/plans.ts";
import { aMailTo, tokenIn } from "../support/mail/mailbox.ts";
import { aSigningKey, samlConfig } from "../support/sso/saml-config.ts";
import { aDomain, aVerifiedDomain, claimDomain, putSso, startSsoServer } from "../support/sso/server.ts";
import { madeOnce, madeForEach } from "../support/made.ts";

describe("domains of single sign-on", () => {
  const { cert } = aSigningKey();

  const api = madeOnce(startApp);
  const server = madeOnce(
    () => startSsoServer(api),
    (made) => made.close(),
  );
  const tenant = madeForEach(() => aTenant(server));

  const DOMAINS = "/api/v1/enterprise/sso/domains";
  const verify = (id: string, { token } = tenant) => server.post(`${DOMAINS}/${id}/verify`, {}, { token });
  const claim = (domain: string, { token } = tenant) => server.post(DOMAINS, { domain }, { token });

  it("counts one that a TXT record proves, whatever other records there are", async () => {
    const made = await claimDomain(server, tenant);
    assert.equal(made.txtName, `_laurel-challenge.${made.domain}`);
    server.dns.records.set(made.txtName, [["v=spf1 -all"]]);
    assertError(await verify(made.id), 422, "DNS_NOT_READY");
    server.dns.records.delete(made.txtName);
    assertError(await verify(made.id), 422, "DNS_NOT_READY");
    const { txtValue } = made;
    server.dns.records.set(made.txtName, [["v=spf1 -all"], [txtValue.slice(0, 20), txtValue.slice(20)]]);
    assert.equal(must(await verify(made.id), 200).status, "VERIFIED");
    server.dns.records.clear();
    const [listed] = must(await server.get(DOMAINS, { token: tenant.token }), 200).data;
    assert.deepEqual([listed.domain, listed.status], [made.domain, "VERIFIED"]);
    assert.deepEqual(
      (await auditOf(api, made.id)).map(({ action }) => action),
      ["sso_domain.added", "sso_domain.verified"],
    );
  });

  it("changes nothing while DNS servers fail", async () => {
    const made = await claimDomain(server, tenant);
    server.dns.records.set(made.txtName, "SERVFAIL");
    assertError(await verify(made.id), 422, "DNS_NOT_READY");
  });

  it("is proved by the record of this tenant alone, and belongs to the first who proves it", async () => {
    const domain = aDomain();
    const other = await aTenant(server);
    const mine = await claimDomain(server, tenant, domain);
    const theirs = await claimDomain(server, other, domain);
    assert.notEqual(mine.txtValue, theirs.txtValue);
    assertError(await verify(mine.id), 422, "DNS_NOT_READY");
    assertError(await verify(mine.id, other), 404);
    must(await verify(theirs.id, other), 200);
    server.dns.records.set(mine.txtName, [[mine.txtValue]]);
    assertError(await verify(mine.id), 409, "DOMAIN_ALREADY_CLAIMED");
  });

  it("is stored in ASCII and lower case; names that nobody can register are refused", async () => {
    const made = must(await claim("Bücher-Laurel.DE"), 201);
    assert.equal(made.domain, "xn--bcher-laurel-dlb.de");
    assertError(await claim("bücher-laurel.de"), 409, "DOMAIN_ALREADY_CLAIMED");
    for (const bad of [
      "com",
      "co.uk",
      "127.0.0.1",
      "[::1]",
      "*.acme.com",
      "acme.com:80",
      "a b.com",
      "",
      "acme",
    ])
      assertError(await claim(bad), 400);
  });

  it("is kept while accounts are made for its addresses", async () => {
    const domain = await aVerifiedDomain(server, tenant);
    must(await putSso(server, tenant, samlConfig(cert, { autoProvision: true })), 200);
    const { data } = must(await server.get(DOMAINS, { token: tenant.token }), 200);
    const [{ id }] = data.filter((one: { domain: string }) => one.domain === domain);
    const remove = (token = tenant.token) => server.delete(`${DOMAINS}/${id}`, { token });
    assertError(await remove(), 409, "INVALID_STATE");
    must(await putSso(server, tenant, samlConfig(cert)), 200);
    assertError(await remove((await aTenant(server)).token), 404);
    must(await remove(), 200);
    assertError(await remove(), 404);
  });

  describe("whose people sign in through a provider", () => {
    const register = (email: string, more: object = {}) =>
      server.post("/api/v1/auth/register", { email, password: "Correct-horse-7", name: "Eve", ...more });
    let domain: string;
    beforeEach(async () => {
      domain = await aVerifiedDomain(server, tenant);
      must(await putSso(server, tenant, samlConfig(cert)), 200);
    });

    it("are registered by nobody elsewhere, which would shut them out", async () => {
      const other = await aTenant(server);
      const email = `ceo@${domain}`;
      assertError(await register(email), 403, "EMAIL_DOMAIN_CLAIMED");
      assertError(await register(email.toUpperCase()), 403, "EMAIL_DOMAIN_CLAIMED");
      assertError(await register(email, { tenantId: other.tenantId }), 403, "EMAIL_DOMAIN_CLAIMED");
      must(await register(`ceo@sub.${domain}`), 201);
      must(await register(email, { tenantId: tenant.tenantId }), 201);
    });

    it("may be invited elsewhere: the mail proves that it is they", async () => {
      const other = await aTenant(server);
      const email = `partner@${domain}`;
      const invitation = { email, role: "VIEWER" };
      must(await server.post("/api/v1/team/invitations", invitation, { token: other.token }), 201);
      const invitationToken = tokenIn(await aMailTo(email, /./));
      must(await register(email, { invitationToken }), 201);
    });

    it("are anybody's again without provider, proof or plan", async () => {
      must(await putSso(server, tenant, samlConfig(cert, { status: "DISABLED" })), 200);
      must(await register(`one@${domain}`), 201);
      must(await putSso(server, tenant, samlConfig(cert)), 200);
      await putOnPlan(api, tenant.tenantId, "PRO");
      must(await register(`two@${domain}`), 201);
      await putOnPlan(api, tenant.tenantId, "ENTERPRISE");
      assertError(await register(`three@${domain}`), 403, "EMAIL_DOMAIN_CLAIMED");
      const claimed = await claimDomain(server, tenant);
      must(await register(`four@${claimed.domain}`), 201);
    });
  });
});
