import assert from "node:assert/strict";
import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { parseEnv } from "node:util";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadSecrets, readConfig } from "../../src/config.ts";
import { namesIn, rowsIn, textOf } from "../support/documents/documents.ts";
import { SAMPLE_API_KEY_PEPPER, SAMPLE_ENCRYPTION_KEY, SAMPLE_JWT_PRIVATE_KEY } from "../../src/secrets.ts";
import { problemsOf } from "../support/config-problems.ts";

const STORES = { DATABASE_URL: "postgres://u:hunter2hunter2@db/laurel", REDIS_URL: "redis://cache" };
const PEPPER = "p".repeat(32);
const newKey = () => generateKeyPairSync("ed25519").privateKey;
const PRODUCTION = {
  NODE_ENV: "production",
  MODE: "cluster",
  PUBLIC_URL: "https://api.example.com",
  JWT_PRIVATE_KEY: JSON.stringify(newKey().export({ format: "jwk" })),
  API_KEY_PEPPERS: PEPPER,
  ENCRYPTION_KEYS: "e".repeat(32),
  SMTP_URL: "smtps://mail.example.com",
  MAIL_FROM: "laurel@example.com",
  ...STORES,
};

/** Name and value of every setting in the file, commented or not. */
const exampleSettings = async (): Promise<Record<string, string>> => {
  const text = await readFile(new URL("../../.env.example", import.meta.url), "utf8");
  // As the server reads it, with the comment marks of the settings taken off.
  return parseEnv(text.replaceAll(/^# (?=[A-Z][A-Z_]+=)/gm, "")) as Record<string, string>;
};

describe("configuration", () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), "laurel-config-"));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  it("needs nothing: an empty environment is one embedded process on this machine", () => {
    const config = readConfig({});
    assert.equal(config.mode, "embedded");
    assert.deepEqual([...config.roles], ["web", "worker"]);
    assert.equal(config.host, "127.0.0.1");
    assert.equal(config.publicUrl, "http://localhost:2567");
    assert.equal(config.demo, true);
    assert.equal(config.autoApproveTenants, true);
    assert.equal(config.isProduction, false);
    assert(Object.isFrozen(config));
  });

  it("takes an empty variable for an unset one", () => {
    assert.deepEqual(readConfig({ PORT: "", MODE: " ", REDIS_URL: "" }), readConfig({}));
  });

  it("reads cluster mode, where nothing is approved or shown by itself", () => {
    const config = readConfig({
      MODE: "cluster",
      ROLES: "worker",
      TRUSTED_PROXIES: "10.0.0.0/8, ::1",
      ...STORES,
    });
    assert.deepEqual([...config.roles], ["worker"]);
    assert.deepEqual(config.trustedProxies, ["10.0.0.0/8", "::1"]);
    assert.equal(config.host, "0.0.0.0");
    assert.equal(config.demo, false);
    assert.equal(config.autoApproveTenants, false);
    assert.equal(config.databaseUrl, STORES.DATABASE_URL);
  });

  it("reports every problem at once, with its variable, and quotes no value", () => {
    const env = {
      MODE: "cluster",
      PORT: "seventy",
      DATABASE_URL: "mysql://u:hunter2hunter2@db",
      JWT_PRIVATE_KEY: "hunter2hunter2",
      API_KEY_PEPPERS: "hunter2",
      TRUSTED_PROXIES: "everyone",
      DEMO: "perhaps",
    };
    const expected = [
      "API_KEY_PEPPERS",
      "DATABASE_URL",
      "DEMO",
      "JWT_PRIVATE_KEY",
      "PORT",
      "REDIS_URL",
      "TRUSTED_PROXIES",
    ];
    assert.deepEqual(problemsOf(env), expected);
    assert.throws(
      () => readConfig(env),
      (error: Error) => !error.message.includes("hunter2") && error.message.includes("node -p"),
    );
  });

  it("refuses networks that are none", () => {
    for (const bad of ["10.0.0.0/33", "::1/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/8/8", "loopback"]) {
      assert.deepEqual(problemsOf({ TRUSTED_PROXIES: bad }), ["TRUSTED_PROXIES"], bad);
    }
  });

  it("asks the DNS servers that it names", () => {
    assert.deepEqual(readConfig({}).dnsServers, []);
    const named = ["10.0.0.2", "10.0.0.2:5353", "[fd00::2]:53", "fd00::2"];
    assert.deepEqual(readConfig({ DNS_SERVERS: named.join(", ") }).dnsServers, named);
    for (const bad of ["dns.example.com", "10.0.0", "10.0.0.2:x"])
      assert.deepEqual(problemsOf({ DNS_SERVERS: bad }), ["DNS_SERVERS"], bad);
  });

  it("lets tenants' addresses lead to public networks only, and into this one in no production", () => {
    assert.deepEqual(readConfig({}).outbound, { allowCidrs: [], ports: [443, 8443], allowLocal: false });
    const given = { OUTBOUND_ALLOW_CIDRS: "10.1.0.0/16,fd00::/8", OUTBOUND_PORTS: "443, 9443" };
    const expected = { allowCidrs: ["10.1.0.0/16", "fd00::/8"], ports: [443, 9443], allowLocal: false };
    assert.deepEqual(readConfig({ ...PRODUCTION, ...given }).outbound, expected);
    for (const all of ["0.0.0.0/0", "::/0", "10.0.0.0/8,::ffff:0:0/96", "somewhere"])
      assert.deepEqual(problemsOf({ OUTBOUND_ALLOW_CIDRS: all }), ["OUTBOUND_ALLOW_CIDRS"], all);
    for (const ports of ["0", "65536", "https", ",", "443;8443"])
      assert.deepEqual(problemsOf({ OUTBOUND_PORTS: ports }), ["OUTBOUND_PORTS"], ports);
    for (const on of ["on", "true", "1", "YES", "enabled"]) {
      assert.equal(readConfig({ WEBHOOKS_ALLOW_LOCAL: on }).outbound.allowLocal, true, on);
      assert.deepEqual(problemsOf({ ...PRODUCTION, WEBHOOKS_ALLOW_LOCAL: on }), ["WEBHOOKS_ALLOW_LOCAL"], on);
    }
    assert.deepEqual(problemsOf({ ...PRODUCTION, WEBHOOKS_ALLOW_LOCAL: "off" }), []);
  });

  it("refuses to split the roles of the one embedded process", () => {
    assert.deepEqual(problemsOf({ ROLES: "web" }), ["ROLES"]);
    assert.deepEqual(problemsOf({ MODE: "cluster", ROLES: "web", ...STORES }), []);
  });

  it("remarks on stores that embedded mode does not use", () => {
    const config = readConfig(STORES);
    assert.equal(config.remarks.length, 2);
    assert.equal(config.databaseUrl, undefined);
    assert.deepEqual(readConfig({ ...STORES, MODE: "embedded" }).remarks, []);
  });

  it("lets production start with secrets of its own and https", () => {
    assert.deepEqual(problemsOf(PRODUCTION), []);
  });

  it("refuses production without secrets in cluster mode, and over http in any mode", () => {
    const { JWT_PRIVATE_KEY: _key, API_KEY_PEPPERS: _peppers, ENCRYPTION_KEYS: _keys, ...rest } = PRODUCTION;
    assert.deepEqual(problemsOf(rest), ["API_KEY_PEPPERS", "ENCRYPTION_KEYS", "JWT_PRIVATE_KEY"]);
    assert.deepEqual(problemsOf({ NODE_ENV: "production" }), ["EMAIL_MODE", "PUBLIC_URL"]);
    assert.deepEqual(problemsOf({ ...PRODUCTION, PUBLIC_URL: "http://localhost:2567" }), ["PUBLIC_URL"]);
  });

  it("refuses the sample secrets in production, in any spelling", () => {
    const pem = createPrivateKey({ key: JSON.parse(SAMPLE_JWT_PRIVATE_KEY), format: "jwk" }).export({
      type: "pkcs8",
      format: "pem",
    });
    for (const key of [
      SAMPLE_JWT_PRIVATE_KEY,
      ` ${SAMPLE_JWT_PRIVATE_KEY} `,
      pem,
      pem.replaceAll("\n", "\\n"),
    ]) {
      assert.deepEqual(problemsOf({ ...PRODUCTION, JWT_PRIVATE_KEY: key }), ["JWT_PRIVATE_KEY"]);
    }
    const peppers = `${PEPPER},${SAMPLE_API_KEY_PEPPER}`;
    assert.deepEqual(problemsOf({ ...PRODUCTION, API_KEY_PEPPERS: peppers }), ["API_KEY_PEPPERS"]);
    const keys = `${PEPPER},${SAMPLE_ENCRYPTION_KEY}`;
    assert.deepEqual(problemsOf({ ...PRODUCTION, ENCRYPTION_KEYS: keys }), ["ENCRYPTION_KEYS"]);
  });

  it("prints no mail into the log of production, but may be told to send none", () => {
    const { SMTP_URL: _url, MAIL_FROM: _from, ...rest } = PRODUCTION;
    assert.deepEqual(problemsOf(rest), ["EMAIL_MODE"]);
    assert.deepEqual(problemsOf({ ...PRODUCTION, EMAIL_MODE: "log" }), ["EMAIL_MODE"]);
    assert.deepEqual(problemsOf({ ...rest, EMAIL_MODE: "off" }), []);
    assert.equal(readConfig(PRODUCTION).isVerifiedEmailRequired, true);
    assert.equal(readConfig({}).isVerifiedEmailRequired, false);
  });

  it("wants what belongs together", () => {
    assert.deepEqual(problemsOf({ SMTP_URL: "smtp://localhost" }), ["MAIL_FROM"]);
    assert.deepEqual(problemsOf({ EMAIL_MODE: "smtp", MAIL_FROM: "a@b.example" }), ["SMTP_URL"]);
    assert.deepEqual(problemsOf({ CAPTCHA_PROVIDER: "altcha" }), ["CAPTCHA_SECRET"]);
    assert.deepEqual(problemsOf({ OAUTH_GITHUB_CLIENT_ID: "x" }), ["OAUTH_GITHUB_CLIENT_SECRET"]);
    const verify = { ...PRODUCTION, CAPTCHA_VERIFY_URL: "https://x.example" };
    assert.deepEqual(problemsOf(verify), ["CAPTCHA_VERIFY_URL"]);
  });

  it("takes the key as PEM or JWK and hands on the same PEM", async () => {
    const key = newKey();
    const pem = key.export({ type: "pkcs8", format: "pem" });
    const jwk = JSON.stringify(key.export({ format: "jwk" }));
    for (const text of [pem, pem.replaceAll("\n", "\\n"), jwk]) {
      const settings = readConfig({
        JWT_PRIVATE_KEY: text,
        API_KEY_PEPPERS: `${PEPPER},${"q".repeat(40)}`,
        ENCRYPTION_KEYS: "e".repeat(32),
      });
      const { secrets } = await loadSecrets({ ...settings, dataDir: dir });
      assert.deepEqual(secrets, {
        jwtPrivateKey: pem,
        apiKeyPeppers: [PEPPER, "q".repeat(40)],
        encryptionKeys: ["e".repeat(32)],
      });
    }
    const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({
      type: "pkcs8",
      format: "pem",
    });
    assert.deepEqual(problemsOf({ JWT_PRIVATE_KEY: rsa }), ["JWT_PRIVATE_KEY"]);
  });

  it("makes secrets once for all that start together, readable by the owner alone", async () => {
    const settings = readConfig({ DATA_DIR: join(dir, "deep", "data") });
    const configs = await Promise.all(Array.from({ length: 8 }, () => loadSecrets(settings)));
    const [first] = configs;
    for (const config of configs) assert.deepEqual(config.secrets, first?.secrets);
    assert.equal(createPrivateKey(first?.secrets.jwtPrivateKey ?? "").asymmetricKeyType, "ed25519");
    const { mode } = await stat(join(settings.dataDir, "secrets.json"));
    assert.equal(mode & 0o777, 0o600);
    assert.deepEqual((await loadSecrets(settings)).secrets, first?.secrets);
  });

  it("gives a secrets file of before there were encryption keys one, the same at every start", async () => {
    const settings = readConfig({ DATA_DIR: dir });
    const { secrets } = await loadSecrets(settings);
    const { encryptionKeys: _keys, ...before } = secrets;
    await writeFile(join(dir, "secrets.json"), JSON.stringify(before));
    const [first, second] = [await loadSecrets(settings), await loadSecrets(settings)];
    assert.match(first.secrets.encryptionKeys[0]!, /^[\w-]{43}$/);
    assert.deepEqual(second.secrets, first.secrets);
    assert.deepEqual({ ...first.secrets, encryptionKeys: [] }, { ...before, encryptionKeys: [] });
  });

  it("prefers a given secret and makes only the other", async () => {
    const { secrets } = await loadSecrets(readConfig({ DATA_DIR: dir, API_KEY_PEPPERS: PEPPER }));
    assert.deepEqual(secrets.apiKeyPeppers, [PEPPER]);
    assert.match(secrets.jwtPrivateKey, /BEGIN PRIVATE KEY/);
  });

  it("never replaces a damaged secrets file", async () => {
    await writeFile(join(dir, "secrets.json"), "{");
    await assert.rejects(loadSecrets(readConfig({ DATA_DIR: dir })), /damaged/);
    assert.equal(await readFile(join(dir, "secrets.json"), "utf8"), "{");
  });

  it("states in .env.example the defaults that the code has", async () => {
    const examples = [
      "DNS_SERVERS",
      "TRUSTED_PROXIES",
      "DATABASE_URL",
      "REDIS_URL",
      "JWT_PRIVATE_KEY",
      "API_KEY_PEPPERS",
      "ENCRYPTION_KEYS",
      "METRICS_TOKEN",
      "METRICS_PORT",
      "SMTP_URL",
      "MAIL_FROM",
      "SUPERADMIN_ALLOW_CIDRS",
      "OUTBOUND_ALLOW_CIDRS",
      "WAREHOUSE_URL",
      "WAREHOUSE_ENDPOINT",
      "ACME_EAB_KEY_ID",
      "ACME_EAB_HMAC_KEY",
      "STRIPE_SECRET_KEY",
      "STRIPE_WEBHOOK_SECRETS",
      "STRIPE_PRICES",
      "STRIPE_API_BASE",
    ];
    const shown = Object.entries(await exampleSettings()).filter(([name]) => !examples.includes(name));
    assert.deepEqual(readConfig(Object.fromEntries(shown)), readConfig({}));
  });

  it("states in the guide to settings the defaults that the code has", () => {
    const shown = rowsIn(textOf("docs/guides/settings.md")).flatMap(([names = "", cell = ""]) => {
      const [, value] = /^`([^`]+)`$/.exec(cell) ?? [];
      return value === undefined ? [] : namesIn(names).map((name) => [name, value]);
    });
    assert.ok(shown.length > 15);
    assert.deepEqual(readConfig(Object.fromEntries(shown)), readConfig({}));
  });
});
