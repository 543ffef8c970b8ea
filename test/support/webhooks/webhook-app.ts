import { generateKeyPairSync, randomUUID } from "node:crypto";
import { sql } from "kysely";
import { type App, createApp } from "../../../src/app.ts";
import { type Config, readConfig } from "../../../src/config.ts";
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
import { mailedTo } from "../mail/mail-log.ts";

/** A tenant of a test's own, with a project and people who can be mailed. */
export type HookSite = { tenantId: string; projectId: string; owner: string; admin: string };

/** A delivery as it is stored. */
export type StoredDelivery = {
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
export type WebhookApp = {
  app: App;
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

const privateKey = generateKeyPairSync("ed25519")
  .privateKey.export({ type: "pkcs8", format: "pem" })
  .toString();

/** Settings of a process that may send to this machine. */
export const hookConfig = (env: Record<string, string> = {}): Config => ({
  ...readConfig({
    LOG_LEVEL: process.env["LOG_LEVEL"] ?? "silent",
    WEBHOOKS_ALLOW_LOCAL: "on",
    EMAIL_MODE: "log",
    ...env,
  }),
  secrets: {
    jwtPrivateKey: privateKey,
    apiKeyPeppers: ["pepper-of-the-tests-and-of-nothing-else"],
    encryptionKeys: ["encryption-key-of-the-tests-and-of-nothing-else"],
  },
});

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
export const hookStore = (app: App): Omit<WebhookApp, "app" | "pass" | "close"> => ({
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

type Row = Omit<StoredDelivery, "dueAt" | "nextAttemptAt"> & {
  dueAt: Date | string | null;
  nextAttemptAt: Date | string | null;
};

const readDeliveries = (app: App, webhookId: string): Promise<StoredDelivery[]> =>
  app.transact(async ({ db }) => {
    const { rows } = await sql<Row>`
      select id, event_id as "eventId", status, attempts, log, error, due_at as "dueAt",
        next_attempt_at as "nextAttemptAt"
      from webhook_deliveries where webhook_id = ${webhookId} order by created_at, id`.execute(db);
    const dateOf = (at: Date | string | null) => (at === null ? null : new Date(at));
    return rows.map((row) => ({
      ...row,
      dueAt: dateOf(row.dueAt),
      nextAttemptAt: dateOf(row.nextAttemptAt),
    }));
  });
