import assert from "node:assert/strict";
import { sql } from "kysely";
import { eventually } from "../support/eventually.ts";
import { openWebhookCluster, type WebhookCluster } from "../support/webhooks/webhook-app.ts";
import { type Receiver, startReceiver } from "../support/webhooks/receiver.ts";

const AHEAD_MS = 600_000;
const EVENTS = 30;
/** How long the endpoint takes: attempts are on their way while workers look for what is due, each second. */
const ANSWER_MS = 1_500;

const ahead = {
  NODE_OPTIONS: `--import=${new URL("../support/faults/clock-ahead.ts", import.meta.url).href}`,
  CLOCK_AHEAD_MS: String(AHEAD_MS),
};

describe("a worker whose clock is ten minutes ahead", () => {
  let cluster: WebhookCluster;
  let receiver: Receiver;
  before(async () => {
    cluster = await openWebhookCluster();
    receiver = await startReceiver((response) => void setTimeout(() => response.end("ok"), ANSWER_MS));
    await cluster.startWorker();
    await cluster.startWorker(ahead);
  });
  after(async () => {
    await cluster?.close();
    await receiver?.close();
  });

  it("takes nothing that others have leased: every webhook is sent once", async () => {
    const site = await cluster.aSite();
    const hooks = [];
    for (let n = 0; n < 4; n++) hooks.push(await cluster.aWebhook(site, { url: receiver.url }));
    for (let n = 0; n < EVENTS; n += 10)
      await cluster.commit(
        site,
        Array.from({ length: 10 }, (_, i) => ({ n: n + i })),
      );
    const left = () =>
      cluster.app.transact(async (work) => {
        const { rows } = await sql<{ pending: string; all: string; attempts: string }>`
          select count(*) filter (where status = 'pending') as pending, count(*) as all,
            coalesce(sum(attempts), 0) as attempts from webhook_deliveries`.execute(work.db);
        return rows[0]!;
      });
    await eventually(
      async () => {
        const { pending, all } = await left();
        return Number(all) === EVENTS * hooks.length && Number(pending) === 0;
      },
      { timeoutMs: 60_000, label: "all deliveries are over" },
    );
    assert.equal(receiver.received.length, EVENTS * hooks.length);
    assert.equal(Number((await left()).attempts), EVENTS * hooks.length);
  });

  it("writes the time of the database, as the others do", async () => {
    const { rows } = await cluster.app.transact((work) =>
      sql<{ ahead: string }>`
        select coalesce(max(extract(epoch from updated_at - clock_timestamp())), 0) as ahead
        from webhook_deliveries`.execute(work.db),
    );
    assert.ok(Number(rows[0]!.ahead) < 1);
  });
});
