import assert from "node:assert/strict";
import { sql } from "kysely";
import type { App } from "../../src/app.ts";
import { accountOf, type Acme, keyContext, readKeyPair } from "../../src/domain/accounts/domains/order.ts";
import { liveSecrets, Webhook } from "../../src/domain/delivery/webhooks/registration.ts";
import { createSecretBox } from "../../src/domain/kernel/secret-box.ts";
import { countOldSealed, SEALED_VALUES } from "../../src/domain/registries/sealed-values.ts";
import { resealSecrets } from "../../src/jobs/jobs.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { aTenant, startTestApp, type Tenant, type TestApp, testConfig } from "../support/app/app.ts";
import { migratedCluster } from "../support/domain/migrated-cluster.ts";
import { must } from "../support/http/client.ts";
import { type AppFactor, withTotp } from "../support/mfa/second-factor.ts";
import { type HostileProvider, startHostileProvider } from "../support/providers/hostile-provider.ts";
import { aBrowser, told } from "../support/providers/oauth.ts";
import { aVerifiedDomain, putSso, type SsoServer, ssoUrl, startSsoServer } from "../support/sso/server.ts";

const OLD = "the-old-encryption-key-of-this-test-alone";
const NEW = "the-new-encryption-key-of-this-test-alone";
/** Columns of what is gone after 8 days. */
const SHORT_LIVED = [
  "email_outbox.sealed",
  "idempotency_keys.body",
  "oauth_flows.secrets",
  "sso_flows.secrets",
];

describe("a key of encryption that is replaced", () => {
  let api: TestApp;
  let server: SsoServer;
  let provider: HostileProvider;
  let tenant: Tenant;
  let factor: AppFactor;
  let secrets: string[];
  let webhookId: string;
  let domainId: string;
  const acme: Acme = {
    directoryUrl: "https://acme.example/directory",
    newAccountKey: async () => "the key of the account",
    issue: () => Promise.reject(new Error("nothing is ordered here")),
  };
  const boxOf = (...keys: string[]) => createSecretBox(keys);
  const under = (...keys: string[]): App => ({ ...api.app, secretBox: boxOf(...keys) });
  const counts = async (...keys: string[]) =>
    Object.fromEntries(await api.app.transact((work) => countOldSealed(work, boxOf(...keys))));
  const post = async (path: string, body: object, status = 200) =>
    must(await server.post(`/api/v1${path}`, body, { token: tenant.token }), status);

  before(async () => {
    const env = {
      SSL_MODE: "external",
      CUSTOM_DOMAIN_SUFFIX: "edge.laurel-tests.com",
      INGRESS_IPS: "192.0.2.7",
    };
    const more = { EMAIL_MODE: "log", VERIFIED_EMAIL_REQUIRED: "off", WEBHOOKS_ALLOW_LOCAL: "on" };
    const settings = testConfig({ ...env, ...more, DEFAULT_PLAN: "ENTERPRISE" });
    const config = { ...settings, secrets: { ...settings.secrets, encryptionKeys: [OLD] } };
    api = await startTestApp(config, { inMemory: true, cluster: await migratedCluster() });
    server = await startSsoServer(api);
    provider = await startHostileProvider();
    tenant = await aTenant(server);
    await aVerifiedDomain(server, tenant);
    const { issuer: oidcIssuer, clientId: oidcClientId, clientSecret: oidcClientSecret } = provider;
    const idp = { provider: "OIDC", displayName: "Acme", oidcIssuer, oidcClientId, oidcClientSecret };
    must(await putSso(server, tenant, idp), 200);
    const hook = await post("/webhooks", { url: "http://127.0.0.1:9/", events: ["*"] }, 201);
    const rotated = await post(`/webhooks/${hook.id}/rotate-secret`, {});
    [webhookId, secrets] = [hook.id, [rotated.secret, hook.secret]];
    const domain = await post("/enterprise/domains", { domain: "play.key-rotation.com" }, 201);
    domainId = domain.id;
    const sealed = api.app.secretBox.seal("the key of the certificate", keyContext(domainId));
    await api.sql`
      insert into custom_domain_certificates
        (domain_id, tenant_id, chain, sealed_key, issuer, not_before, not_after, renew_at, created_at)
      values (${domainId}::uuid, ${tenant.tenantId}::uuid, 'chain', ${sealed}, 'Test', now(), now(), now(),
        now())`;
    await accountOf({ ...api.app, acme });
    factor = await withTotp(api, tenant);
    await post("/auth/mfa/totp/setup", { currentPassword: tenant.password, code: await factor.code() });
  });
  after(async () => {
    await server.close();
    await provider.close();
    await api.stop();
  });

  it("has encrypted what a table of the server names, and else what is gone in a week", async () => {
    const rows = await api.sql<{ column: string; table: string }>`
      select c.table_name as table, c.column_name as column from information_schema.columns c
      join information_schema.tables t on t.table_name = c.table_name and t.table_type = 'BASE TABLE'
      where c.table_schema = 'public' and t.table_schema = 'public' and c.data_type = 'text'`;
    const found = new Set<string>();
    for (const { table, column } of rows) {
      const sealed = await api.sql`
        select 1 from ${sql.table(table)} where starts_with(${sql.ref(column)}, ${api.app.secretBox.mark})
        limit 1`;
      if (sealed.length > 0) found.add(`${table}.${column}`);
    }
    const listed = SEALED_VALUES.map(({ table, column }) => `${table}.${column}`);
    assert.deepEqual(
      listed.filter((one) => !found.has(one)),
      [],
    );
    assert.deepEqual(
      [...found].filter((one) => !listed.includes(one) && !SHORT_LIVED.includes(one)),
      [],
    );
  });

  it("that is lost has certificates of custom domains ordered anew at once, each once", async () => {
    const put = (set: ReturnType<typeof sql>) =>
      api.sql`update custom_domains set ${set} where id = ${domainId}::uuid`;
    const isDue = async (...keys: string[]): Promise<boolean> => {
      await resealSecrets.run(under(...keys), "*");
      const rows =
        await api.sql`select from custom_domains where id = ${domainId}::uuid and next_order_at <= now()`;
      return rows.length === 1;
    };
    const issued = sql`ssl_status = 'ISSUED', next_order_at = now() + interval '40 days'`;
    await put(issued);
    // One of today may be another process's, whose keys this one has not.
    assert.equal(await isDue(NEW), false);
    await api.sql`update custom_domain_certificates set created_at = now() - interval '2 days'`;
    assert.equal(await isDue(OLD), false);
    assert.equal(await isDue(NEW), true);
    // An order that has failed waits for its time.
    await put(sql`ssl_status = 'RENEWING', next_order_at = now() + interval '5 minutes'`);
    assert.equal(await isDue(NEW), false);
    await put(sql`ssl_status = 'NONE', next_order_at = null`);
  });

  it("can be taken away once all is encrypted anew, which a metric tells", async () => {
    const names = SEALED_VALUES.map(({ name }) => name);
    assert.deepEqual(await counts(NEW, OLD), Object.fromEntries(names.map((name) => [name, 1])));
    // Who has lost the old one already loses nothing more by it.
    await resealSecrets.run(under(NEW), "*");
    assert.deepEqual(await counts(NEW, OLD), Object.fromEntries(names.map((name) => [name, 1])));
    await Promise.all([resealSecrets.run(under(NEW, OLD), "*"), resealSecrets.run(under(NEW, OLD), "*")]);
    assert.deepEqual(await counts(NEW, OLD), Object.fromEntries(names.map((name) => [name, 0])));
    const text = await (await fetch(`${api.url}/metrics`)).text();
    for (const name of names)
      assert.match(text, new RegExp(`^laurel_secrets_of_old_keys\\{value="${name}"\\} 1$`, "m"));

    const app = under(NEW);
    const { secretBox } = app;
    const hook = await app.transact(({ em }) => em.findOneOrFail(Webhook, { id: webhookId }));
    assert.deepEqual(liveSecrets(secretBox, hook, new Date()), secrets);
    const pair = await app.transact((work) => readKeyPair(work, secretBox, domainId));
    assert.equal(pair?.key, "the key of the certificate");
    const account = await accountOf({ ...app, acme: { ...acme, newAccountKey: async () => "another" } });
    assert.equal(account.keyPem, "the key of the account");
    const { email, password } = tenant;
    const client = await anotherServer(api, {}, { secretBox });
    must(await client.post("/api/v1/auth/login", { email, password, mfaCode: await factor.code() }), 200);
    const own = await startSsoServer({ ...api, app });
    provider.person = { sub: "ada", email, email_verified: true };
    const answer = told((await aBrowser().go(ssoUrl(own, tenant))).at);
    assert.equal(answer["error"], "mfa_required");
    await own.close();
  });
});
