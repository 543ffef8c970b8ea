import assert from "node:assert/strict";
import { sql } from "kysely";
import type { App } from "../../src/app.ts";
import { createDeliverWebhooks } from "../../src/jobs/sweeps.ts";
import type { Job } from "../../src/jobs/job.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { type HookSite, openWebhookApp } from "../support/webhooks/webhook-app.ts";
import { isSigned, type Receiver, startReceiver } from "../support/webhooks/receiver.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const MINUTE_MS = 60_000;

describe("the pump of webhooks", () => {
  let site: HookSite;
  let app: App;
  let deliverWebhooks: Job;
  const receivers: Receiver[] = [];

  const receive = async (...args: Parameters<typeof startReceiver>): Promise<Receiver> => {
    const receiver = await startReceiver(...args);
    receivers.push(receiver);
    return receiver;
  };
  const sweep = (): Promise<void> => deliverWebhooks.run(app, "*");
  const statuses = async (webhookId: string): Promise<string[]> =>
    (await hooks.deliveries(webhookId)).map(({ status }) => status);
  const events = (count: number): object[] => Array.from({ length: count }, (_, n) => ({ n }));

  const hooks = madeOnce(
    () => openWebhookApp(Date.now()),
    (made) => made.close(),
  );
  beforeEach(async () => {
    await hooks.sql`update webhooks set deleted_at = now()`;
    site = await hooks.aSite();
    // A worker process of its own for each test.
    app = { ...hooks.app };
    deliverWebhooks = createDeliverWebhooks();
  });
  afterEach(async () => {
    await deliverWebhooks.atStop!(app);
    for (const receiver of receivers.splice(0)) await receiver.close();
  });

  it("sends each event's exact bytes once, signed, and records what came of it", async () => {
    const receiver = await receive((response) => void response.end("thänks"));
    const webhook = await hooks.aWebhook(site, { url: `${receiver.url}/hook?x=1` });
    await hooks.happen(site, events(50));
    await deliverWebhooks.run(app, webhook.id);
    await eventuallyHolds(async () =>
      assert.deepEqual(new Set(await statuses(webhook.id)), new Set(["success"])),
    );
    assert.equal(receiver.received.length, 50);
    const deliveries = new Map((await hooks.deliveries(webhook.id)).map((one) => [one.id, one]));
    const kept = await bodies();
    for (const one of receiver.received) {
      assert.equal(one.path, "/hook?x=1");
      assert.ok(isSigned(one, webhook.plain));
      const delivery = deliveries.get(String(one.headers["x-service-delivery"]))!;
      assert.equal(one.headers["webhook-id"], delivery.eventId);
      assert.equal(one.headers["x-service-attempt"], "1");
      assert.equal(one.body.toString(), kept.get(delivery.eventId));
      const [logged] = delivery.log;
      assert.deepEqual([logged!.attempt, logged!.responseCode, logged!.responseBody], [1, 200, "thänks"]);
      deliveries.delete(delivery.id);
    }
    assert.equal(deliveries.size, 0);
  });

  const bodies = async (): Promise<Map<string, string>> => {
    const { rows } = await app.transact(({ db }) =>
      sql<{ id: string; body: string }>`
        select id, body from webhook_events where project_id = ${site.projectId}`.execute(db),
    );
    return new Map(rows.map(({ id, body }) => [id, body]));
  };

  it("makes the second attempt when it is due, with the same id and body and the next number", async () => {
    let isWell = false;
    const receiver = await receive((response) => void response.writeHead(isWell ? 200 : 500).end());
    const webhook = await hooks.aWebhook(site, { url: receiver.url });
    await hooks.happen(site);
    await sweep();
    await eventually(async () => (await hooks.deliveries(webhook.id))[0]!.attempts === 1);
    isWell = true;
    hooks.pass(MINUTE_MS - 1_000);
    await sweep();
    hooks.pass(1_000 + 3_000);
    await sweep();
    await eventually(async () => (await statuses(webhook.id))[0] === "success");
    const [first, second, ...others] = receiver.received;
    assert.deepEqual(others, []);
    assert.deepEqual(second!.body, first!.body);
    assert.equal(second!.headers["webhook-id"], first!.headers["webhook-id"]);
    assert.deepEqual(
      [first!, second!].map(({ headers }) => headers["x-service-attempt"]),
      ["1", "2"],
    );
    assert.ok(isSigned(second!, webhook.plain));
  });

  it("has no more than four on their way to one endpoint, and one before it has answered", async () => {
    const held: (() => void)[] = [];
    const receiver = await receive((response) => void held.push(() => response.end()));
    const webhook = await hooks.aWebhook(site, { url: receiver.url });
    await hooks.happen(site, events(12));
    await sweep();
    await eventually(() => held.length === 1);
    await sweep();
    held.pop()!();
    await eventually(() => held.length === 4);
    await sweep();
    assert.equal(receiver.received.length, 5);
    await eventually(async () => {
      assert.ok(receiver.open() <= 4);
      for (const answer of held.splice(0)) answer();
      return !(await statuses(webhook.id)).includes("pending");
    });
    assert.equal(receiver.received.length, 12);
  });

  it("sends nothing to who is PAUSED, suspended, deleted or on a plan without webhooks", async () => {
    const receiver = await receive();
    const [paused, deleted, well] = [
      await hooks.aWebhook(site, { url: `${receiver.url}/paused` }),
      await hooks.aWebhook(site, { url: `${receiver.url}/deleted` }),
      await hooks.aWebhook(site, { url: `${receiver.url}/well` }),
    ];
    const others = [await hooks.aSite(), await hooks.aSite()];
    for (const other of others) {
      await hooks.aWebhook(other, { url: `${receiver.url}/other` });
      await hooks.happen(other);
    }
    await hooks.happen(site);
    await app.transact(async ({ db }) => {
      await sql`update webhooks set status = 'PAUSED' where id = ${paused.id}`.execute(db);
      await sql`update webhooks set deleted_at = now() where id = ${deleted.id}`.execute(db);
      await sql`update tenants set approval_status = 'SUSPENDED' where id = ${others[0]!.tenantId}`.execute(
        db,
      );
      await sql`update tenants set plan = 'FREE' where id = ${others[1]!.tenantId}`.execute(db);
    });
    for (const { id } of [paused, deleted]) await deliverWebhooks.run(app, id);
    await sweep();
    await eventually(async () => (await statuses(well.id))[0] === "success");
    assert.deepEqual(pluck(receiver.received, "path"), ["/well"]);
    assert.deepEqual(await statuses(paused.id), ["pending"]);
  });

  it("goes on beside a webhook whose secret cannot be read, which is told", async () => {
    const receiver = await receive();
    const sealed = await hooks.aWebhook(site, { url: `${receiver.url}/sealed` });
    const well = await hooks.aWebhook(site, { url: `${receiver.url}/well` });
    await app.transact(({ db }) =>
      sql`update webhooks set secret = 'v1:gone:a:b:c' where id = ${sealed.id}`.execute(db),
    );
    await hooks.happen(site);
    await sweep();
    await eventually(async () => (await statuses(well.id))[0] === "success");
    await eventually(async () => (await hooks.deliveries(sealed.id))[0]!.attempts === 1);
    const [told] = await hooks.deliveries(sealed.id);
    assert.match(told!.error!, /secret of the webhook can no longer be read/);
    assert.equal(receiver.received.length, 1);
  });

  it("waits at its end for what is on its way, and gives the rest back at once", async () => {
    const slow = await receive((response) => void setTimeout(() => response.end(), 300));
    const hanging = await receive(() => undefined);
    const ends = await hooks.aWebhook(site, { url: slow.url });
    const hangs = await hooks.aWebhook(site, { url: hanging.url });
    await hooks.happen(site, events(3));
    await sweep();
    await eventually(() => slow.open() === 1 && hanging.open() === 1);
    await deliverWebhooks.atStop!(app);
    assert.deepEqual((await statuses(ends.id)).toSorted(), ["pending", "pending", "success"]);
    await eventually(() => hanging.open() === 0);
    for (const { attempts, dueAt } of await hooks.deliveries(hangs.id)) {
      assert.equal(attempts, 0);
      assert.ok(dueAt! <= app.clock(), "due at once, not when a lease ends");
    }
    assert.equal(slow.received.length, 1, "and nothing new was begun");
  });

  it("counts what it does", async () => {
    const receiver = await receive(
      (response, { path }) => void response.writeHead(Number(path.slice(1))).end(),
    );
    await hooks.aWebhook(site, { url: `${receiver.url}/200` });
    await hooks.aWebhook(site, { url: `${receiver.url}/410` });
    const before = await metrics();
    await hooks.happen(site);
    await sweep();
    await eventuallyHolds(async () => {
      const now = await metrics();
      const more = (name: string) => (now.get(name) ?? 0) - (before.get(name) ?? 0);
      assert.equal(more('laurel_webhook_attempts_total{outcome="success"}'), 1);
      assert.equal(more('laurel_webhook_attempts_total{outcome="failure"}'), 1);
      assert.equal(more("laurel_webhook_given_up_total"), 1);
      assert.equal(more("laurel_webhook_attempt_duration_seconds_count"), 2);
      assert.equal(more("laurel_webhook_first_attempt_lag_seconds_count"), 2);
      assert.equal(now.get("laurel_webhook_in_flight"), 0);
    });
  });

  const metrics = async (): Promise<Map<string, number>> => {
    const text = await app.metrics.registry.metrics();
    return new Map(
      text.split("\n").map((line) => {
        const at = line.lastIndexOf(" ");
        return [line.slice(0, at), Number(line.slice(at + 1))];
      }),
    );
  };
});
