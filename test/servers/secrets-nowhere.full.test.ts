import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { createLog } from "../../src/log.ts";
import { anAdmin, aPlatformToken } from "../support/app/admin.ts";
import { type Answer, aTenant, aWsToken, shareApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { putOnPlan } from "../support/app/plans.ts";
import {
  type DomainDns,
  hasPebble,
  type Pebble,
  startDomainDns,
  startPebble,
} from "../support/domains/pebble.ts";
import { aName, domainsOf } from "../support/domains/server.ts";
import { eventually } from "../support/eventually.ts";
import { assertError } from "../support/http/assert-error.ts";
import { must } from "../support/http/client.ts";
import { aMailTo, refuseMail, tokenIn } from "../support/mail/mailbox.ts";
import { withAdminTotp, withTotp } from "../support/mfa/second-factor.ts";
import { skipUnless } from "../support/made.ts";
import { freePort, temporaryDir } from "../support/processes/process.ts";
import { sharedFakeStripe } from "../support/providers/fake-stripe.ts";
import { type HostileProvider, startHostileProvider } from "../support/providers/hostile-provider.ts";
import { aBrowser, startUrl, told } from "../support/providers/oauth.ts";
import { databaseText, formsOf, namesIn, openedKeys, readEverything } from "../support/secrets/traces.ts";
import { ssoUrl } from "../support/sso/server.ts";
import { type Receiver, startReceiver } from "../support/webhooks/receiver.ts";

const CONSOLE = "https://console.test.example/swept";
const api1 = (path: string): string => `/api/v1${path}`;
const aSecret = (): string => randomBytes(24).toString("base64url");

describe("secrets, with the log at its most talkative", () => {
  const lines: string[] = [];
  /** By what they are. */
  const secrets = new Map<string, string>();
  let api: TestApp;
  let dns: DomainDns;
  let pebble: Pebble;
  let provider: HostileProvider;
  let receiver: Receiver;
  let directory: Awaited<ReturnType<typeof temporaryDir>> | undefined;
  let owner: Tenant;
  const ids: Record<string, string> = {};

  before(async function () {
    skipUnless(hasPebble(), this, "certificates are ordered from Pebble: apt install pebble");
    dns = await startDomainDns();
    const [port, tlsPort] = [await freePort(), await freePort()];
    pebble = await startPebble({ httpPort: port, dns: dns.address });
    directory = await temporaryDir();
    provider = await startHostileProvider();
    receiver = await startReceiver((response) => response.writeHead(500).end("no"));
    keep("the client secret of GitHub", aSecret());
    keep("the token of metrics", aSecret());
    const settings = {
      DATA_DIR: directory.path,
      PORT: String(port),
      PUBLIC_URL: `http://127.0.0.1:${port}`,
      TLS_PORT: String(tlsPort),
      SSL_MODE: "acme",
      DNS_SERVERS: dns.address,
      ACME_DIRECTORY_URL: pebble.directoryUrl,
      ACME_CA_FILE: pebble.caFile,
      ACME_EMAIL: "operator@laurel-tests.com",
      INGRESS_IPS: "",
      OAUTH_REDIRECT_URIS: CONSOLE,
      OAUTH_GITHUB_CLIENT_SECRET: secrets.get("the client secret of GitHub")!,
      METRICS_TOKEN: secrets.get("the token of metrics")!,
    };
    const write = (line: string): void => void lines.push(line);
    api = await shareApp(settings, createLog({ logLevel: "trace" }, { write }));
    const { billing, secrets: own } = api.app.config;
    keep("the private key of tokens", own.jwtPrivateKey);
    for (const [index, key] of own.encryptionKeys.entries()) keep(`encryption key ${index}`, key);
    for (const [index, pepper] of own.apiKeyPeppers.entries()) keep(`pepper ${index}`, pepper);
    keep("the key of Stripe", billing!.secretKey);
    for (const [index, key] of billing!.webhookSecrets.entries())
      keep(`webhook secret of Stripe ${index}`, key);
    owner = await aTenant(api);
    Object.assign(ids, { projectId: owner.projectId, memberId: owner.userId });
  });
  after(async () => {
    await api?.stop();
    await pebble?.stop();
    await provider?.close();
    await receiver?.close();
    await dns?.close();
    await directory?.remove();
  });

  const keep = (name: string, secret: unknown): string => {
    assert(typeof secret === "string" && secret.length >= 12, `${name}: ${String(secret)}`);
    secrets.set(name, secret);
    return secret;
  };
  const own = (key?: string) => ({
    token: owner.token,
    ...(key === undefined ? {} : { headers: { "X-Idempotency-Key": key } }),
  });
  /** Sends a request twice under one key, which answers the same secret both times. */
  const twice = async (path: string, body: object, status: number): Promise<Answer["body"]> => {
    const key = randomUUID();
    const made = must(await api.post(api1(path), body, own(key)), status);
    assert.deepEqual(must(await api.post(api1(path), body, own(key)), status), made);
    return made;
  };
  /** Sends a secret where it is not expected, in JSON that is none, and to where nothing is. */
  const misplace = async (secret: string): Promise<void> => {
    const post = (path: string, body: unknown) => api.post(api1(path), body, { ...own(), isUnchecked: true });
    await post("/auth/login", `{"email": "ada@example.com", "password": "${secret}", `);
    await post("/auth/login", { email: [secret], password: { secret } });
    await post("/enterprise/sso/test", { secret: { token: [secret] } });
    await post("/projects", { name: "x", settings: secret });
    for (const token of [secret, `${secret}x`]) {
      await api.get(api1("/projects"), { token, isUnchecked: true });
      if (/^(svc|whsec)_/.test(token))
        await api.get(api1(`/players/${encodeURIComponent(token)}`), { ...own(), isUnchecked: true });
    }
  };

  it("of sign-in are kept: passwords, tokens, links of mails", async () => {
    const person = await aTenant(api);
    const first = keep("a password", `${aSecret()}aA1!`);
    keep("the first access token", person.token);
    const change = { currentPassword: person.password, newPassword: first };
    must(await api.post(api1("/auth/change-password"), change, { token: person.token }), 200);
    const login = (password: string) => api.post(api1("/auth/login"), { email: person.email, password });
    assertError(await login(keep("a wrong password", `${aSecret()}aA1!`)), 401, "INVALID_CREDENTIALS");
    const session = must(await login(first), 200);
    keep("an access token", session.accessToken);
    const refreshToken = keep("a refresh token", session.refreshToken);
    const next = must(await api.post(api1("/auth/refresh"), { refreshToken }), 200);
    keep("the next refresh token", next.refreshToken);
    must(await api.post(api1("/auth/forgot-password"), { email: person.email }), 200);
    const token = keep("the token of a link", tokenIn(await aMailTo(person.email, /reset/i)));
    const password = keep("the last password", `${aSecret()}aA1!`);
    must(await api.post(api1("/auth/reset-password"), { token, password }), 200);
    keep("a token of rooms", (await aWsToken(api, person.key, "ada")).token);
    // A mail that is refused, with all that was in it.
    const refused = `${randomUUID()}@example.com`;
    refuseMail(refused, 550);
    await twice("/team/invitations", { email: refused, role: "VIEWER" }, 201);
    await eventually(async () => {
      const { data } = must(await api.get(api1("/email-logs"), own()), 200);
      const logged = data as { to: string; status: string }[];
      return logged.some(({ to, status }) => to === refused && status === "FAILED");
    });
    await misplace(password);
    // A provider that does not answer, with the operator's secret for it.
    const browser = aBrowser();
    const { headers } = await browser.visit(startUrl(api, "github", { redirect_uri: CONSOLE }));
    const state = new URL(headers.get("location")!).searchParams.get("state")!;
    const back = `${api.url}${api1("/auth/oauth/github/callback")}?code=x&state=${encodeURIComponent(state)}`;
    assert.equal(told((await browser.go(back)).at)["error"], "temporarily_unavailable");
  });

  it("of a second factor are kept, also of a super-admin, and tokens of the platform", async () => {
    const person = await aTenant(api);
    const { secret, recoveryCodes } = await withTotp(api, person);
    keep("the secret of an app", secret);
    keep("a recovery code", recoveryCodes[0]);
    const { email, password } = person;
    const answer = await api.post(api1("/auth/login"), { email, password });
    const challengeToken = keep("the token of a challenge", answer.body.error.challenge.token);
    assertError(
      await api.post(api1("/auth/login/mfa"), { challengeToken, code: secret.slice(0, 6) }),
      401,
      "MFA_CODE_INVALID",
    );
    must(await api.post(api1("/auth/login/mfa"), { challengeToken, code: recoveryCodes[1] }), 200);
    const admin = await anAdmin(api);
    const factor = await withAdminTotp(api, admin);
    keep("the secret of a super-admin's app", factor.secret);
    keep("the token of a super-admin", factor.token);
    keep("the password of a super-admin", admin.password);
    await misplace(keep("a token of the platform", await aPlatformToken(api, factor.token)));
    ids["admin"] = factor.token;
  });

  it("of a project are kept: keys of the API, secrets of webhooks", async () => {
    const path = `/projects/${owner.projectId}/api-keys`;
    const made = await twice(path, { name: "Server", scopes: ["*"] }, 201);
    keep("an API key", made.key);
    keep("a rotated API key", (await twice(`${path}/${made.id}/rotate`, {}, 201)).key);
    await misplace(made.key);
    const hook = await twice("/webhooks", { url: receiver.url, events: ["*"] }, 201);
    keep("the secret of a webhook", hook.secret);
    keep("its next secret", (await twice(`/webhooks/${hook.id}/rotate-secret`, {}, 200)).secret);
    Object.assign(ids, { keyId: made.id, webhookId: hook.id });
    must(await api.post(api1("/players"), { externalUserId: "ada" }, { key: made.key }), 201);
    await eventually(() => receiver.received.length > 0);
    await misplace(hook.secret);
  });

  it("of single sign-on are kept, whatever the provider does", async () => {
    const domain = aName();
    const claim = must(await api.post(api1("/enterprise/sso/domains"), { domain }, own()), 201);
    dns.set(claim.txtName, "TXT", [claim.txtValue]);
    must(await api.post(api1(`/enterprise/sso/domains/${claim.id}/verify`), {}, own()), 200);
    const oidcClientSecret = keep("the client secret of a tenant", aSecret());
    const { issuer: oidcIssuer, clientId: oidcClientId } = provider;
    const client = { oidcIssuer, oidcClientId, oidcClientSecret };
    const sso = { provider: "OIDC", displayName: "Acme", autoProvision: true, ...client };
    const put = (body: object) => api.put(api1("/enterprise/sso"), body, own());
    must(await put(sso), 200);
    assertError(await put({ ...sso, oidcIssuer: "http://127.0.0.1:9" }), 422, "SSO_DISCOVERY_FAILED");
    assertError(await put({ ...sso, oidcIssuer: oidcClientSecret, oidcScopes: oidcClientSecret }), 400);
    must(await api.post(api1("/enterprise/sso/test"), {}, own()), 200);
    const signIn = async (): Promise<Record<string, string>> => {
      provider.person = { sub: randomUUID(), email: `${randomUUID()}@${domain}`, email_verified: true };
      return told((await aBrowser().go(ssoUrl(api, owner, { redirect_uri: CONSOLE }))).at);
    };
    keep("an access token by single sign-on", (await signIn())["access_token"]);
    for (const status of [400, 401, 500]) {
      provider.malice.token = (response) =>
        void response
          .writeHead(status, { "Content-Type": "application/json", "WWW-Authenticate": "Basic" })
          .end(JSON.stringify({ error: "invalid_client" }));
      assert("error" in (await signIn()));
    }
    delete provider.malice.token;
  });

  it("of billing are kept, whatever Stripe does", async () => {
    const stripe = await sharedFakeStripe();
    const order = { plan: "PRO", interval: "monthly", successUrl: CONSOLE, cancelUrl: CONSOLE };
    const buyer = await aTenant(api);
    await putOnPlan(api, buyer.tenantId, "FREE");
    const buy = () => api.post(api1("/billing/checkout"), order, { token: buyer.token });
    must(await buy(), 200);
    stripe.fail(500);
    assertError(await buy(), 502, "STRIPE_ERROR");
    stripe.fail(401);
    assertError(await buy(), 502, "STRIPE_ERROR");
    stripe.fail(undefined);
    const [signed] = api.app.config.billing!.webhookSecrets;
    const headers = { "Stripe-Signature": `t=1,v1=${signed}`, "Content-Type": "application/json" };
    const rung = await api.post(api1("/billing/webhook"), { id: signed }, { headers });
    assertError(rung, 400, "SIGNATURE_INVALID");
  });

  it("of certificates are kept, whether they are issued or not", async () => {
    const of = domainsOf(api, dns);
    const { id } = await of.aDomainIn("ACTIVE", owner);
    ids["domainId"] = id;
    const failing = await of.add(aName(), owner);
    of.makeRecords(failing);
    dns.set(failing.domain, "A", ["127.0.0.2"]);
    await of.check(failing.id);
    await of.until(failing.id, owner, ({ sslStatus }) => sslStatus === "FAILED");
    const { key, account } = await openedKeys(api, id);
    for (const [name, text] of [
      ["the key of a certificate", key],
      ["the key of ACME", account],
    ] as const) {
      assert.match(keep(name, text), /PRIVATE KEY/);
      keep(`${name}, a line`, text.split("\n")[1]);
    }
  });

  it("come back in no later answer, and are in no line of the log and no row of the database", async () => {
    const last = `last-${randomUUID()}`;
    const metrics = { headers: { Authorization: `Bearer ${secrets.get("the token of metrics")!}` } };
    const answers = [
      await (await fetch(`${api.url}/metrics`, metrics)).text(),
      ...(await readEverything(api, { owner, admin: ids["admin"]!, ids })),
    ];
    await api.get(api1("/projects"), { ...own(), headers: { "X-Request-Id": last } });
    await eventually(() => lines.some((line) => line.includes(last)));
    const log = lines.join("");
    const rows = await databaseText(api);

    // What is looked at has what must be there, so it would have a secret too.
    assert.ok(secrets.size > 30, `${secrets.size} secrets`);
    const sent = ["/enterprise/sso", "/webhooks", "/billing/checkout", "/auth/login"];
    for (const route of sent) assert.ok(log.includes(route), route);
    for (const line of ["could not be ordered", '"level":"debug"']) assert.ok(log.includes(line), line);
    for (const table of ["idempotency_keys", "audit_log", "webhooks", "totp_secrets", "sso_configurations"])
      assert.ok(rows.includes(`\n${table} {`), table);
    assert.ok(answers.join("").includes("oidcClientSecretSet"));
    const known = new Map([["an id", owner.tenantId]]);
    for (const text of [log, rows, answers.join("")]) assert.deepEqual(namesIn(known, text), ["an id"]);
    const wrapped = Buffer.from(`Basic x:${secrets.get("an API key")}; y`).toString("base64");
    assert.deepEqual(namesIn(secrets, wrapped), ["an API key"]);
    assert.ok([...formsOf("a-secret-of-some-length")].every((form) => form.length >= 8));

    assert.deepEqual(namesIn(secrets, log), [], "in the log");
    assert.deepEqual(namesIn(secrets, rows), [], "in the database");
    assert.deepEqual(namesIn(secrets, answers.join("\n")), [], "in answers");
  });
});
