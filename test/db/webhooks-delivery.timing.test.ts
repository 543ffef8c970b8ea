import assert from "node:assert/strict";
import { sql } from "kysely";
import { claimDeliveries } from "../../src/domain/delivery/webhooks/delivering/claim.ts";
import { rotateSecret, updateWebhook } from "../../src/domain/delivery/webhooks/registration.ts";
import { eventually, eventuallyHolds } from "../support/eventually.ts";
import { type HookSite, openWebhookCluster } from "../support/webhooks/webhook-app.ts";
import { isSigned, startReceiver } from "../support/webhooks/receiver.ts";
import { madeOnce } from "../support/made.ts";

const WITHIN = { timeoutMs: 60_000 };

describe("deliveries by two workers", () => {
  let site: HookSite;
  let status = 200;

  const cluster = madeOnce(() => openWebhookCluster());
  const receiver = madeOnce(() => startReceiver((response) => void response.writeHead(status).end()));
  before(async () => {
    site = await cluster.aSite();
    await Promise.all([cluster.startWorker(), cluster.startWorker()]);
  });
  after(async () => {
    await cluster?.close();
    await receiver?.close();
  });
  beforeEach(async () => {
    await cluster.sql`update webhooks set deleted_at = now()`;
    site = await cluster.aSite();
    receiver.received.length = 0;
    status = 200;
  });

  const events = (count: number): object[] => Array.from({ length: count }, (_, n) => ({ n }));
  /** As if the wait of the schedule were over. */
  const makeDue = (webhookId: string) =>
    cluster.app.transact(async (work) => {
      await sql`update webhook_deliveries set due_at = now(), next_attempt_at = now()
        where webhook_id = ${webhookId} and status = 'pending'`.execute(work.db);
      work.wakeWebhooks([webhookId]);
    });
  /** A webhook whose only delivery has failed once. */
  const failedOnce = async () => {
    status = 500;
    const webhook = await cluster.aWebhook(site, { url: `${receiver.url}/first` });
    await cluster.commit(site, events(1));
    await eventually(async () => (await cluster.deliveries(webhook.id))[0]?.attempts === 1, WITHIN);
    status = 200;
    return webhook;
  };

  it("come once each: no row is ever in the hands of both", async () => {
    const webhooks: { id: string }[] = [];
    for (let i = 0; i < 5; i++) webhooks.push(await cluster.aWebhook(site, { url: `${receiver.url}/${i}` }));
    for (let i = 0; i < 10; i++) await cluster.commit(site, events(50));
    await eventually(() => receiver.received.length >= 2_500, WITHIN);
    await eventuallyHolds(async () => {
      for (const { id } of webhooks)
        assert.deepEqual(
          new Set((await cluster.deliveries(id)).map((one) => one.status)),
          new Set(["success"]),
        );
    }, WITHIN);
    const ids = receiver.received.map(({ headers }) => headers["x-service-delivery"]);
    assert.equal(ids.length, 2_500);
    assert.equal(new Set(ids).size, 2_500);
  });

  it("are claimed once by transactions that run at the same time", async () => {
    const { id } = await cluster.aWebhook(site, { url: receiver.url });
    await cluster.sql`update webhooks set status = 'PAUSED' where id = ${id}`;
    await cluster.commit(site, events(200));
    await eventually(async () => (await cluster.deliveries(id)).length === 200, WITHIN);
    await cluster.sql`update webhooks set status = 'ACTIVE' where id = ${id}`;
    // The workers may claim some of them beside these.
    const claims = await Promise.all(
      Array.from({ length: 8 }, () =>
        cluster.app.transact((work) => claimDeliveries(work, new Map([[id, 20]]))),
      ),
    );
    const claimed = claims.flat().map((one) => one.id);
    assert.ok(claimed.length > 0);
    assert.equal(new Set(claimed).size, claimed.length);
  });

  it("go to the new address, with the new secret, once the webhook was changed", async () => {
    const { id, plain } = await failedOnce();
    const { tenantId } = site;
    const { transact, secretBox } = cluster.app;
    await transact((work) => updateWebhook(work, tenantId, id, { url: `${receiver.url}/second` }));
    const { secret } = await transact((work) =>
      rotateSecret(work, secretBox, { tenantId, id, graceSeconds: 3_600 }),
    );
    await makeDue(id);
    await eventually(async () => (await cluster.deliveries(id))[0]?.status === "success", WITHIN);
    const [first, second, ...others] = receiver.received;
    assert.deepEqual(others, []);
    assert.deepEqual([first!.path, second!.path], ["/first", "/second"]);
    assert.ok(first!.body.equals(second!.body));
    assert.ok(isSigned(first!, plain) && isSigned(second!, secret));
    const signatures = String(second!.headers["webhook-signature"]).split(" ");
    assert.equal(signatures.length, 2, "the old secret signs too for a while");
  });
});
