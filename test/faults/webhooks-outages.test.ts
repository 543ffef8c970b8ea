import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";
import { sql } from "kysely";
import { openPostgres } from "../../src/platform/database.ts";
import { eventually } from "../support/eventually.ts";
import { type RedisServer, startRedis } from "../support/processes/redis-server.ts";
import { tell } from "../support/tell.ts";
import type { HookSite } from "../support/webhooks/webhook-app.ts";
import { openWebhookCluster, type WebhookCluster } from "../support/webhooks/webhook-cluster.ts";
import { type Receiver, startReceiver } from "../support/webhooks/receiver.ts";

/** Without an operator all is well again within this time, in ms. */
const RECOVERY_MAX_MS = 30_000;
const EVENT_EVERY_MS = 25;

describe("webhooks while Redis and PostgreSQL fail", function () {
  let redis: RedisServer;
  let cluster: WebhookCluster;
  let receiver: Receiver;
  let site: HookSite;
  /** Numbers of events whose commit was answered, and those that may or may not be there. */
  const committed = new Set<number>();
  const unsure = new Set<number>();
  let isLoaded = true;
  let load: Promise<void>;

  const produce = async (): Promise<void> => {
    for (let n = 0; isLoaded; n++) {
      try {
        await cluster.commit(site, [{ n }]);
        committed.add(n);
      } catch {
        unsure.add(n);
      }
      await delay(EVENT_EVERY_MS);
    }
  };
  const arrived = (): Set<number> =>
    new Set(
      receiver.received.map(({ body }) => (JSON.parse(body.toString()) as { data: { n: number } }).data.n),
    );
  /** Everything that is committed by now arrives. @returns how long that took, in ms */
  const recovery = async (): Promise<number> => {
    const startMs = performance.now();
    const by = Math.max(...committed);
    await eventually(() => committed.size > 0 && Math.max(...committed) > by + 20, {
      timeoutMs: RECOVERY_MAX_MS,
      label: "events can be committed again",
    });
    const wanted = [...committed];
    await eventually(
      () => {
        const there = arrived();
        return wanted.every((n) => there.has(n));
      },
      { timeoutMs: RECOVERY_MAX_MS, label: "all that was committed has arrived" },
    );
    return performance.now() - startMs;
  };

  before(async () => {
    redis = await startRedis();
    cluster = await openWebhookCluster({ REDIS_URL: redis.url });
    receiver = await startReceiver();
    site = await cluster.aSite();
    await cluster.aWebhook(site, { url: receiver.url });
    await cluster.startWorker();
    load = produce();
    await recovery();
  });
  after(async () => {
    isLoaded = false;
    await load;
    await cluster?.close();
    await receiver?.close();
    await redis?.kill();
  });

  it("lose nothing when all of Redis is deleted", async () => {
    const own = new Redis(redis.url);
    await own.flushall();
    own.disconnect();
    assert.ok((await recovery()) < RECOVERY_MAX_MS);
  });

  it("lose nothing when Redis dies and comes back empty", async () => {
    await redis.kill();
    const before = receiver.received.length;
    await eventually(() => receiver.received.length > before + 10, {
      timeoutMs: 60_000,
      label: "events arrive without Redis",
    });
    await redis.start();
    assert.ok((await recovery()) < RECOVERY_MAX_MS);
  });

  it("lose nothing when connections to PostgreSQL are cut, again and again", async () => {
    const { databaseUrl } = cluster.services;
    const database = new URL(databaseUrl).pathname.slice(1);
    const admin = new URL(databaseUrl);
    admin.pathname = "/postgres";
    const other = await openPostgres(admin.href, 1);
    try {
      for (let i = 0; i < 10; i++) {
        await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${database}`.execute(
          other.em.fork().getKysely(),
        );
        await delay(100 + 200 * Math.random());
      }
    } finally {
      await other.close();
    }
    assert.ok((await recovery()) < RECOVERY_MAX_MS);
  });

  it("have sent nothing that was not committed", async function () {
    isLoaded = false;
    await load;
    await recoveryOfRest();
    for (const n of arrived()) assert.ok(committed.has(n) || unsure.has(n));
    tell(this, `${committed.size} events, ${receiver.received.length} attempts`);
  });

  const recoveryOfRest = () =>
    eventually(
      () => {
        const there = arrived();
        return [...committed].every((n) => there.has(n));
      },
      { timeoutMs: RECOVERY_MAX_MS },
    );
});
