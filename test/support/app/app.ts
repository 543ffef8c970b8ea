import assert from "node:assert/strict";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import type { App } from "../../../src/app.ts";
import { type Running, startServer } from "../../../src/cli/serve.ts";
import { type Config, readConfig } from "../../../src/config.ts";
import { openApiDocument } from "../../../src/http/openapi.ts";
import { routes } from "../../../src/http/routes.ts";
import { createLog } from "../../../src/log.ts";
import type { PlatformOptions } from "../../../src/platform.ts";
import { assertEventShapes } from "../domain/event-shapes.ts";
import { isOnPostgres } from "../domain/domain.ts";
import { migratedCluster } from "../domain/migrated-cluster.ts";
import { type Client, clientOf, must } from "../http/client.ts";
import { startMailbox } from "../mail/mailbox.ts";
import { sharedTxtServer } from "../sso/txt-server.ts";
import { sharedFakeStripe, stripeSettings } from "../providers/fake-stripe.ts";
import { type Statement, statementsOf } from "../statement.ts";
import { checkResponse } from "../http/openapi-check.ts";
import { refuseInsideTransactions } from "./outside-transactions.ts";

export type { Answer } from "../http/client.ts";

/** A running server and a client of it whose every answer is held against the API's description. */
export type TestApp = Client & { app: App; sql: Statement; stop(): Promise<void> };

type Log = ReturnType<typeof createLog>;

const document = openApiDocument(routes);
const privateKey = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" });

const LOG_LEVEL = process.env["LOG_LEVEL"] ?? "silent";

/** Settings of a test process; LOG_LEVEL=debug npm test shows what the server says. */
export const testConfig = (env: Record<string, string> = {}): Config => {
  const settings = readConfig({
    PORT: "0",
    DEMO: "off",
    LOG_LEVEL,
    TRUSTED_PROXIES: "127.0.0.1/32",
    ...env,
  });
  return {
    ...settings,
    passwordCost: { memoryCost: 8, timeCost: 1, parallelism: 1 },
    secrets: {
      jwtPrivateKey: privateKey,
      apiKeyPeppers: ["pepper-of-the-tests-and-of-nothing-else"],
      encryptionKeys: ["encryption-key-of-the-tests-and-of-nothing-else"],
    },
  };
};

let shared: Promise<TestApp> | undefined;

/**
 * The server of this mocha process, embedded and in memory; tests keep apart by tenant. `log`: another one
 * than that of LOG_LEVEL, if nobody has started the server before.
 */
export const startApp = (log?: Log): Promise<TestApp> => {
  shared ??= startShared(undefined, log);
  return shared;
};

/**
 * As `startApp`, of other settings, until it is stopped: what helpers do to the shared server, they do to
 * this one. `log`: another one than that of LOG_LEVEL.
 */
export const shareApp = async (env: Record<string, string>, log?: Log): Promise<TestApp> => {
  // Not compared by value: to show a server takes more memory than there is.
  assert(shared === undefined, "a process holds one server at a time");
  shared = startShared(env, log);
  const api = await shared;
  const stop = async (): Promise<void> => {
    shared = undefined;
    await api.stop();
  };
  return { ...api, stop };
};

/** Mails go to the mailbox of this process; proved addresses are asked for only where a test wants that. */
const startShared = async (more?: Record<string, string>, log?: Log): Promise<TestApp> => {
  const { smtpUrl } = await startMailbox();
  const env = {
    SMTP_URL: smtpUrl,
    MAIL_FROM: "Laurel <laurel@test.example>",
    VERIFIED_EMAIL_REQUIRED: "off",
    // Nobody answers there; a flow can be begun all the same.
    OAUTH_GITHUB_CLIENT_ID: "swept",
    OAUTH_GITHUB_CLIENT_SECRET: "swept",
    OAUTH_GITHUB_URL: "http://127.0.0.1:9",
    OAUTH_REDIRECT_URIS: "https://console.test.example/swept",
    DNS_SERVERS: (await sharedTxtServer()).address,
    // Plans are sold by a Stripe of the tests; tenants begin with everything all the same.
    ...stripeSettings((await sharedFakeStripe()).url),
    DEFAULT_PLAN: "ENTERPRISE",
    // Domains lead to a proxy that has their certificates.
    SSL_MODE: "external",
    CUSTOM_DOMAIN_SUFFIX: "edge.laurel-tests.com",
    INGRESS_IPS: "192.0.2.7,2001:db8::7",
    // Receivers of tests are on this machine.
    WEBHOOKS_ALLOW_LOCAL: "on",
  };
  if (isOnPostgres) return startOnPostgres({ ...env, ...more }, log);
  if (more) return startTestApp(testConfig({ ...env, ...more }), {}, log);
  return startTestApp(testConfig(env), { inMemory: true, cluster: await migratedCluster() }, log);
};

const startOnPostgres = async (env: Record<string, string>, log?: Log): Promise<TestApp> => {
  const { startServices } = await import("../processes/services.ts");
  const services = await startServices("");
  services.removeAtExit();
  return startTestApp(testConfig({ ...services.env, LOG_LEVEL, ...env }), {}, log);
};

/**
 * A server of its own; the caller stops it. One process holds one server at a time: Colyseus is a module-wide
 * thing.
 */
export const startTestApp = async (
  config: Config,
  options: PlatformOptions = {},
  log: Log = createLog(config),
): Promise<TestApp> => testAppOf(await startServer(config, log, options));

const testAppOf = ({ app, address, stop }: Running): TestApp => {
  refuseInsideTransactions(app);
  const client = clientOf(`http://127.0.0.1:${address!.port}`, (...answer) =>
    checkResponse(document, ...answer),
  );
  return { ...client, app, sql: statementsOf(app.transact), stop };
};

/** A tenant of a test's own. */
export type Tenant = {
  token: string;
  tenantId: string;
  userId: string;
  email: string;
  password: string;
  projectId: string;
  /** A live key of the project with every scope. */
  key: string;
};

/** Registers a tenant with one project and a key, through the API. */
export const aTenant = async (api: Client): Promise<Tenant> => {
  const email = `${randomUUID()}@example.com`;
  const password = "Correct-horse-7";
  const registration = { email, password, name: "Test Owner", tenantName: "Test Studio" };
  const { accessToken: token, user } = must(await api.post("/api/v1/auth/register", registration), 201);
  const project = must(await api.post("/api/v1/projects", { name: "Test Game" }, { token }), 201);
  const key = await aKey(api, { token, projectId: project.id });
  return { token, tenantId: user.tenantId, userId: user.id, email, password, projectId: project.id, key };
};

/** A key of a project; every scope unless told otherwise. */
export const aKey = async (
  api: Client,
  {
    token,
    projectId,
    scopes = ["*"],
    environment,
  }: { token: string; projectId: string; scopes?: string[]; environment?: "live" | "test" },
): Promise<string> =>
  must(
    await api.post(
      `/api/v1/projects/${projectId}/api-keys`,
      { name: "Test key", scopes, environment },
      { token },
    ),
    201,
  ).key;

/** A token for the rooms, of a player who is made if need be. */
export const aWsToken = async (
  api: Client,
  key: string,
  externalUserId: string,
): Promise<{ token: string; playerId: string }> =>
  must(await api.post("/api/v1/auth/ws-token", { externalUserId }, { key }), 200);

/** At the end of each suite, so that the one is red that made an event of another shape happen. */
afterEach(async function () {
  const { parent } = this.currentTest!;
  if (shared && parent?.tests.at(-1) === this.currentTest)
    await assertEventShapes((await shared).app.transact);
});

after(async () => {
  await (await shared)?.stop();
});
