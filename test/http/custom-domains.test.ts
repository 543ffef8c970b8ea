import assert from "node:assert/strict";
import { aTenant, startApp } from "../support/app/app.ts";
import { auditOf } from "../support/app/game.ts";
import { aName, DOMAINS, overHttp } from "../support/domains/server.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { startSsoServer } from "../support/sso/server.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

describe("custom domains", () => {
  const api = madeOnce(startApp);
  const tenant = madeForEach(() => aTenant(api));

  const add = (domain = aName(), { token } = tenant, headers = {}) =>
    api.post(DOMAINS, { domain }, { token, headers });
  const list = async ({ token } = tenant) => must(await api.get(DOMAINS, { token }), 200).data;
  const setPlan = (plan: string, overrides = {}) =>
    api.sql`update tenants set plan = ${plan}, plan_overrides = ${JSON.stringify(overrides)}::jsonb
      where id = ${tenant.tenantId}::uuid`;
  const serve = async (id: string): Promise<void> => {
    await api.sql`update custom_domains set status = 'ACTIVE', updated_at = now() where id = ${id}::uuid`;
    api.app.domains.forget();
  };

  it("are known to all who ask at once, not only to the first, when they are read anew", async () => {
    const { id, domain } = must(await add(), 201);
    const { domains } = api.app;
    assert.equal(await domains.find(domain), undefined);
    await serve(id);
    const found = await Promise.all([domains.find(domain), domains.find(domain)]);
    assert.deepEqual(
      found.map((one) => one?.tenantId),
      [tenant.tenantId, tenant.tenantId],
    );
  });

  it("are known as they are when a change is committed after one that began later", async () => {
    const { domains } = api.app;
    const { id, domain } = must(await add(), 201);
    await serve(id);
    const before = (await domains.find(domain))?.version;
    const later = must(await add(), 201);
    await serve(later.id);
    await domains.find(domain);
    await api.sql`update custom_domains set updated_at = updated_at + interval '1 millisecond'
      where id = ${id}::uuid`;
    domains.forget();
    const { version } = (await domains.find(domain))!;
    assert.notEqual(version, before);
  });

  it("are added with the records that their owner makes, and removed", async () => {
    const made = must(await add("Spiele.Bücher-Laurel.de"), 201);
    assert.equal(made.domain, "spiele.xn--bcher-laurel-dlb.de");
    assert.equal(made.verification.txtName, `_laurel-challenge.${made.domain}`);
    assert.match(made.verification.txtValue, /^laurel-custom-domain=[\w-]{32}$/);
    assert.match(made.verification.cnameTarget, /^[0-9a-f]{12}\.edge\.laurel-tests\.com$/);
    assert.deepEqual(made.verification.aRecords, ["192.0.2.7", "2001:db8::7"]);
    assert.deepEqual([made.status, made.sslStatus, made.certificate], ["PENDING", "NONE", null]);
    assertError(await add("spiele.bücher-laurel.de"), 409, "DOMAIN_ALREADY_CLAIMED");
    assert.deepEqual(pluck(await list(), "id"), [made.id]);
    must(await api.delete(`${DOMAINS}/${made.id}`, { token: tenant.token }), 200);
    assertError(await api.delete(`${DOMAINS}/${made.id}`, { token: tenant.token }), 404);
    assert.deepEqual(await list(), []);
    const acts = (await auditOf(api, made.id)).map(({ action }) => action);
    assert.deepEqual(acts, ["custom_domain.added", "custom_domain.removed"]);
  });

  it("are no addresses, public suffixes, wildcards or names of this server", async () => {
    for (const bad of [
      "127.0.0.1",
      "co.uk",
      "*.acme.com",
      "acme.com:443",
      "x.edge.laurel-tests.com",
      "localhost",
    ])
      assertError(await add(bad), 400);
    assert.deepEqual(await list(), []);
  });

  it("are as many as the plan has room for", async () => {
    await setPlan("STARTER");
    assertError(await add(), 402, "PLAN_FEATURE_UNAVAILABLE");
    assert.deepEqual(await list(), [], "the list is there on every plan");
    await setPlan("PRO");
    must(await add(), 201);
    const refused = await add();
    assertError(refused, 402, "PLAN_LIMIT_EXCEEDED");
    assert.equal(refused.body.error.details[0].field, "customDomains");
    await setPlan("PRO", { customDomains: 2 });
    const answers = await Promise.all([add(), add(), add()]);
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 402, 402]);
  });

  it("are checked again when that is asked for, once a minute", async () => {
    const { id } = must(await add(), 201);
    await api.sql`update custom_domains set status = 'FAILED', next_check_at = null where id = ${id}::uuid`;
    const again = () => api.post(`${DOMAINS}/${id}/verify`, {}, { token: tenant.token });
    const { status, checks } = must(await again(), 200);
    assert.equal(status, "PENDING");
    assert.notEqual(checks.checkedAt, null, "it has been looked at");
    assertError(await again(), 429, "DOMAIN_CHECK_RATE");
  });

  it("pin their tenant, and a proxy is told which of them it may get a certificate for", async () => {
    const { id, domain } = must(await add(), 201);
    const port = Number(new URL(api.url).port);
    const other = await aTenant(api);
    const byHttps = { "X-Forwarded-Proto": "https" };
    const players = (key: string) =>
      overHttp({ port, host: domain, path: "/v1/players", key, headers: byHttps });
    const ask = (name: string, headers = {}) =>
      overHttp({ port, host: "localhost", path: `/internal/tls/ask?domain=${name}`, headers });
    assert.equal((await players(other.key)).status, 200, "a name that is not proved pins nothing");
    assert.equal((await ask(domain)).status, 404);
    await serve(id);
    assert.equal((await players(other.key)).status, 401);
    assert.equal((await players(tenant.key)).status, 200);
    assert.equal((await ask(domain)).status, 200);
    assert.equal((await ask(domain.toUpperCase())).status, 200);
    assert.equal((await ask("unknown.acme.com")).status, 404);
    assert.equal((await ask(domain, { "X-Forwarded-For": "203.0.113.9" })).status, 404);
    assert.equal((await ask(domain, { Via: "1.1 proxy" })).status, 404);
    must(await api.delete(`${DOMAINS}/${id}`, { token: tenant.token }), 200);
    assert.equal((await ask(domain)).status, 404);
    assert.equal((await players(other.key)).status, 200);
  });

  it("end with their tenant", async () => {
    const { id } = must(await add(), 201);
    await serve(id);
    await api.sql`update tenants set delete_after = now() where id = ${tenant.tenantId}::uuid`;
    const { deleteDueTenants } = await import("../../src/domain/accounts/tenants/tenants.ts");
    await api.app.transact(deleteDueTenants);
    const rows = await api.sql`select from custom_domains where id = ${id}::uuid`;
    assert.equal(rows.length, 0);
  });

  it("are not there on a server that has none", async () => {
    const server = await startSsoServer(api, { domains: undefined });
    try {
      const { token } = tenant;
      const port = Number(new URL(server.url).port);
      assertError(await server.post(DOMAINS, { domain: aName() }, { token }), 503, "DOMAINS_NOT_CONFIGURED");
      assert.deepEqual(must(await server.get(DOMAINS, { token }), 200).data, []);
      for (const path of [
        "/internal/tls/ask?domain=acme.com",
        `/.well-known/acme-challenge/${"x".repeat(43)}`,
      ])
        assert.equal((await overHttp({ port, host: "localhost", path })).status, 404);
    } finally {
      await server.close();
    }
  });
});
