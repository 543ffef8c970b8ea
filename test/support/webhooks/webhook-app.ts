import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import assert from "node:assert/strict";
import { type App, createApp } from "../../../src/app.ts";
import type { Config } from "../../../src/config.ts";
import { OUTBOX_PARTITIONS } from "../../../src/domain/kernel/ids.ts";
import { relayPartitions } from "../../../src/domain/delivery/outbox/relay.ts";
import {
  createWebhook,
  type NewWebhook,
  Webhook,
} from "../../../src/domain/delivery/webhooks/registration.ts";
import type {
  Attempt,
  DeliveryStatus,
} from "../../../src/domain/delivery/webhooks/delivering/record-results.ts";
import { createLog } from "../../../src/log.ts";
import { createMetrics } from "../../../src/metrics.ts";
import { openPlatform } from "../../../src/platform.ts";
import { migratedCluster } from "../domain/migrated-cluster.ts";
import { mailedTo } from "../mail/mailbox.ts";
import { type Services, startServices } from "../processes/services.ts";
import { kill, type Laurel, startProcess, temporaryDir } from "../processes/process.ts";
import type {
  WebhookOutcome,
  WebhookSender,
} from "../../../src/domain/delivery/webhooks/delivering/sender.ts";
import { createWebhookSender } from "../../../src/platform/webhook-sender.ts";
import { type RawEndpoint, type Respond, startRawEndpoint } from "./raw-endpoint.ts";
import { type Tenant, testConfig, type TestApp } from "../app/app.ts";
import { must } from "../http/client.ts";
import { type Statement, statementsOf } from "../statement.ts";
import { eventually } from "../eventually.ts";
import type { Received } from "./receiver.ts";

/** A tenant of a test's own, with a project and people who can be mailed. */
export type HookSite = { tenantId: string; projectId: string; owner: string; admin: string };

/** A delivery as it is stored. */
type StoredDelivery = {
  id: string;
  eventId: string;
  status: DeliveryStatus;
  attempts: number;
  log: Attempt[];
  error: string | null;
  dueAt: Date | null;
  nextAttemptAt: Date | null;
};

/** An app without HTTP and running jobs: a test sets its clock, relays and delivers by hand. */
type WebhookApp = {
  app: App;
  sql: Statement;
  /** Lets time pass. */
  pass(ms: number): void;
  aSite(): Promise<HookSite>;
  /** A webhook of the tenant; all events to an address where nobody answers, unless told otherwise. */
  aWebhook(site: HookSite, body?: Partial<NewWebhook>): Promise<Webhook & { plain: string }>;
  /** Commits events of a type that is for webhooks, and relays them. */
  happen(site: HookSite, data?: readonly object[]): Promise<void>;
  deliveries(webhookId: string): Promise<StoredDelivery[]>;
  webhook(id: string): Promise<Webhook>;
  /** Templates of mails, by the address they went to. */
  mails(to: string): Promise<string[]>;
  close(): Promise<void>;
};

/** Settings of a process that may send to this machine. */
const hookConfig = (env: Record<string, string> = {}): Config =>
  testConfig({ WEBHOOKS_ALLOW_LOCAL: "on", EMAIL_MODE: "log", ...env });

/** @param from when its clock begins */
export const openWebhookApp = async (from = Date.UTC(2030, 0, 1)): Promise<WebhookApp> => {
  const config = hookConfig();
  const log = createLog(config);
  const platform = await openPlatform(config, log, { inMemory: true, cluster: await migratedCluster() });
  await platform.database.migrateUp();
  let nowMs = from;
  const app = createApp({ config, log, metrics: createMetrics(), platform, clock: () => new Date(nowMs) });
  return {
    app,
    pass: (ms) => void (nowMs += ms),
    ...hookStore(app),
    close: async () => {
      await app.webhookSender.close();
      await platform.close();
    },
  };
};

/** What tests of webhooks put into a database and read of it. */
const hookStore = (app: App): Omit<WebhookApp, "app" | "pass" | "close"> => ({
  sql: statementsOf(app.transact),
  aSite: () => addSite(app),
  aWebhook: async ({ tenantId }, body = {}) => {
    const all: NewWebhook = { url: "http://127.0.0.1:9/hook", events: ["*"], ...body };
    const { webhook, secret } = await app.transact((work) =>
      createWebhook(work, app.secretBox, tenantId, all),
    );
    return Object.assign(webhook, { plain: secret });
  },
  happen: async ({ projectId }, data = [{ n: 1 }]) => {
    await app.transact(async (work) => {
      for (const one of data) work.emit(projectId, "custom.thing" as never, one as never);
    });
    const parts = Array.from({ length: OUTBOX_PARTITIONS }, (_, part) => part);
    let left: readonly number[] = parts;
    while (left.length > 0) left = (await relayPartitions(app, left)).again;
  },
  deliveries: (webhookId) => readDeliveries(app, webhookId),
  webhook: (id) => app.transact(({ em }) => em.findOneOrFail(Webhook, { id })),
  mails: (to) => mailedTo(app, to),
});

const addSite = (app: App): Promise<HookSite> =>
  app.transact(async ({ db, now }) => {
    const [tenantId, projectId] = [randomUUID(), randomUUID()];
    const [owner, admin] = [`${randomUUID()}@example.com`, `${randomUUID()}@example.com`];
    const at = sql`${now.toISOString()}::timestamptz`;
    await sql`
      insert into tenants (id, name, approval_status, plan, created_at, updated_at)
      values (${tenantId}, 'Test', 'APPROVED', 'PRO', ${at}, ${at})`.execute(db);
    await sql`
      insert into projects (id, tenant_id, name, created_at, updated_at)
      values (${projectId}, ${tenantId}, 'Test', ${at}, ${at})`.execute(db);
    const people = [
      [owner, "OWNER"],
      [admin, "ADMIN"],
      [`${randomUUID()}@example.com`, "DEVELOPER"],
    ];
    for (const [email, role] of people)
      await sql`
        insert into users (id, tenant_id, email, name, password_hash, role, status, created_at, updated_at)
        values (${randomUUID()}, ${tenantId}, ${email}, 'Ada', '', ${role}, 'ACTIVE', ${at}, ${at})`.execute(
        db,
      );
    return { tenantId, projectId, owner, admin };
  });

const readDeliveries = (app: App, webhookId: string): Promise<StoredDelivery[]> =>
  app.transact(async ({ db }) => {
    const { rows } = await sql<StoredDelivery>`
      select id, event_id as "eventId", status, attempts, log, error, due_at as "dueAt",
        next_attempt_at as "nextAttemptAt"
      from webhook_deliveries where webhook_id = ${webhookId} order by created_at, id`.execute(db);
    return rows;
  });

/** Worker processes on a database of their own, and an app beside them that runs no jobs. */
export type WebhookCluster = Omit<WebhookApp, "happen" | "pass"> & {
  app: App;
  services: Services;
  /** @param env settings of this one alone */
  startWorker(env?: Record<string, string>): Promise<Laurel>;
  /** Commits events, so many at once; a worker relays them. */
  commit(site: HookSite, events: readonly object[]): Promise<void>;
};

/** @param env settings of all processes, such as another REDIS_URL */
export const openWebhookCluster = async (env: Record<string, string> = {}): Promise<WebhookCluster> => {
  const directory = await temporaryDir();
  const services = await startServices(directory.path);
  const shared = { ...services.env, WEBHOOKS_ALLOW_LOCAL: "on", EMAIL_MODE: "log", ...env };
  const config = hookConfig(shared);
  const log = createLog({ logLevel: "silent" });
  const platform = await openPlatform(config, log);
  await platform.database.migrateUp();
  const app = createApp({ config, log, metrics: createMetrics(), platform });
  const { happen: _happen, ...store } = hookStore(app);
  const workers: Laurel[] = [];
  return {
    app,
    services,
    ...store,
    startWorker: async (own = {}) => {
      const secrets = { ENCRYPTION_KEYS: config.secrets.encryptionKeys.join(",") };
      const worker = await startProcess(["worker"], { ...shared, ...secrets, ...own });
      workers.push(worker);
      return worker;
    },
    commit: async ({ projectId }, events) => {
      await app.transact(async (work) => {
        for (const data of events) work.emit(projectId, "custom.thing" as never, data as never);
      });
    },
    close: async () => {
      for (const worker of workers) if (worker.child.exitCode === null) await kill(worker);
      await app.queue.close();
      await app.webhookSender.close();
      await platform.close();
      await services.remove();
      await directory.remove();
    },
  };
};

/** Stands in the path of every request. */
const SECRET = "s3cret-in-the-path";
export const PATH = `/hook/${SECRET}?a=1`;

type Given = { headers?: Record<string, string>; body?: string; timeoutMs?: number; signal?: AbortSignal };

/** A sender of webhooks as in development, with endpoints that are closed when it is. */
export type TrialSender = {
  sender: WebhookSender;
  endpoints: RawEndpoint[];
  startEndpoint(respond?: Respond): Promise<RawEndpoint>;
  sendTo(endpoint: { port: number }, given?: Given): Promise<WebhookOutcome>;
  /** What comes of an endpoint that answers so; nothing of the request may show in the error. */
  outcomeOf(respond: Respond, given?: Given): Promise<WebhookOutcome>;
  close(): Promise<void>;
};

export const trialSender = (): TrialSender => {
  const sender = createWebhookSender({ allowCidrs: [], ports: [443], allowLocal: true });
  const endpoints: RawEndpoint[] = [];
  const trial: TrialSender = {
    sender,
    endpoints,
    startEndpoint: async (respond) => {
      const endpoint = await startRawEndpoint(respond);
      endpoints.push(endpoint);
      return endpoint;
    },
    sendTo: ({ port }, given = {}) =>
      sender.send({
        url: `http://127.0.0.1:${port}${PATH}`,
        headers: { "content-type": "application/json" },
        body: '{"a":"ü"}',
        timeoutMs: 5_000,
        ...given,
      }),
    outcomeOf: async (respond, given) => {
      const outcome = await trial.sendTo(await trial.startEndpoint(respond), given);
      assert.doesNotMatch(outcome.error ?? "", new RegExp(`${SECRET}|127\\.0\\.0\\.1|/hook`));
      return outcome;
    },
    close: async () => {
      await sender.close();
      await Promise.all(endpoints.splice(0).map((one) => one.close()));
    },
  };
  return trial;
};

/** Answers with these bytes, each a character. */
export const says =
  (text: string): Respond =>
  (socket) =>
    void socket.write(text, "latin1");

/** A delivery as the database has it. */
type StoredHook = {
  type: string;
  status: string;
  error: string | null;
  attempts: number;
  log: { responseBody: string | null; error: string | null }[];
  /** What is kept of the event. */
  body: string | null;
};

type Payload = { id: string; type: string; projectId: string; data: Record<string, unknown> };

/** What a receiver was sent. */
export const payloadsOf = (received: readonly Received[]): Payload[] =>
  received.map(({ body }) => JSON.parse(body.toString()) as Payload);

/** Webhooks of a tenant, by its API. */
export const hooksOf = (api: TestApp, { token }: Tenant) => ({
  add: async (url: string, more: object = {}): Promise<string> =>
    must(await api.post("/api/v1/webhooks", { url, events: ["*"], ...more }, { token }), 201).id as string,
  change: async (id: string, change: object): Promise<void> =>
    void must(await api.patch(`/api/v1/webhooks/${id}`, change, { token }), 200),
  stored: (id: string): Promise<StoredHook[]> => api.sql<StoredHook>`
    select d.event_type as type, d.status, d.error, d.attempts, d.log, e.body from webhook_deliveries d
    left join webhook_events e on e.project_id = d.project_id and e.seq = d.event_seq
    where d.webhook_id = ${id} order by d.event_seq`,
  /** Makes whatever waits for its next attempt due at once. */
  hurry: async (id: string): Promise<void> => {
    await api.app.transact(async (work) => {
      await sql`
        update webhook_deliveries set due_at = ${work.now.toISOString()}::timestamptz
        where webhook_id = ${id} and status = 'pending'`.execute(work.db);
      work.wakeWebhooks([id]);
    });
  },
});

/** Waits until everything that was committed is relayed. */
export const relayed = (api: TestApp): Promise<true> =>
  eventually(
    async () => {
      const rows = await api.sql<{ n: number }>`select count(*) as n from outbox_q`;
      return rows[0]!.n === 0;
    },
    { timeoutMs: 60_000 },
  );

/** Of the type, the newest. */
export const lastOf = (all: readonly StoredHook[], type: string): StoredHook => {
  const found = all.findLast((one) => one.type === type);
  assert.ok(found, `no delivery of ${type}`);
  return found;
};
