import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../support/eventually.ts";
import { kill } from "../support/processes/process.ts";
import { tell } from "../support/made.ts";
import { type HookSite, openWebhookCluster, type WebhookCluster } from "../support/webhooks/webhook-app.ts";
import { isSigned, type Received, type Receiver, startReceiver } from "../support/webhooks/receiver.ts";
import { pluck } from "../support/pluck.ts";

const EVENTS = 10_000;
const COMMIT = 100;
const WEBHOOKS = 4;
const KILL_EVERY_MS = 2_000;
const KILLS = 8;
/** One answer in so many is a failure. */
const FAILS = 50;

describe("kill -9 of the worker that delivers, every two seconds", function () {
  let cluster: WebhookCluster;
  let receiver: Receiver;
  let site: HookSite;

  before(async () => {
    cluster = await openWebhookCluster();
    let answers = 0;
    receiver = await startReceiver((response) => {
      // Some time, so that a kill meets attempts on their way.
      setTimeout(() => response.writeHead(++answers % FAILS === 0 ? 500 : 200).end(), 5);
    });
    site = await cluster.aSite();
  });
  after(async () => {
    await receiver?.close();
    await cluster?.close();
  });

  /** Makes retries due now: waiting for the schedule is not what is tested here. */
  const hurry = () =>
    cluster.sql`update webhook_deliveries set due_at = now(), next_attempt_at = now()
      where status = 'pending' and attempts > 0 and next_attempt_at = due_at and due_at > now()`;
  const left = async (): Promise<number> => {
    const rows = await cluster.sql<{ n: number }>`
      select (select count(*) from webhook_deliveries where status = 'pending')
        + (select count(*) from outbox_q) as n`;
    return rows[0]!.n;
  };

  it("delivers every event at least once, with the same id and bytes each time, signed", async function () {
    const webhooks = [];
    for (let i = 0; i < WEBHOOKS; i++)
      webhooks.push(await cluster.aWebhook(site, { url: `${receiver.url}/${i}` }));
    // Something that JSON, UTF-8 and signatures can get wrong.
    const events = Array.from({ length: EVENTS / WEBHOOKS }, (_, n) => ({ n, text: `Zoë 🏆 \u2028 ${n}` }));
    const share = Math.ceil(events.length / KILLS);
    let cut = 0;
    // A share of the events comes before each kill, so that each meets a worker at work.
    for (let kills = 0; kills < KILLS; kills++) {
      const next = events.slice(kills * share, (kills + 1) * share);
      for (let at = 0; at < next.length; at += COMMIT)
        await cluster.commit(site, next.slice(at, at + COMMIT));
      const worker = await cluster.startWorker();
      await delay(KILL_EVERY_MS);
      cut += receiver.open();
      await kill(worker);
      await hurry();
    }
    await cluster.startWorker();
    await eventually(
      async () => {
        await hurry();
        return (await left()) === 0;
      },
      { timeoutMs: 120_000 },
    );

    const counted = await cluster.sql<{ status: string; n: number }>`
      select status, count(*) as n from webhook_deliveries group by 1`;
    assert.deepEqual(pluck(counted, "status", "n"), [["success", EVENTS]]);
    let again = 0;
    for (const [i, { plain }] of webhooks.entries())
      again += assertArrived(
        receiver.received.filter(({ path }) => path === `/${i}`),
        plain,
      );
    assert.ok(again > 0, "no attempt was ever made again");
    tell(this, `${KILLS} kills, ${cut} attempts cut, ${again} deliveries came more than once`);
  });

  /** @returns how many deliveries came more than once */
  const assertArrived = (received: readonly Received[], secret: string): number => {
    const byDelivery = Map.groupBy(received, ({ headers }) => String(headers["x-service-delivery"]));
    const seen = new Set<number>();
    let again = 0;
    for (const attempts of byDelivery.values()) {
      const [first, ...others] = attempts;
      if (others.length > 0) again++;
      for (const other of others) {
        assert.ok(other.body.equals(first!.body), "the same bytes");
        assert.equal(other.headers["webhook-id"], first!.headers["webhook-id"]);
      }
      for (const one of attempts) assert.ok(isSigned(one, secret));
      const numbers = attempts.map(({ headers }) => Number(headers["x-service-attempt"]));
      for (const [i, number] of numbers.entries()) {
        const before = i === 0 ? 1 : numbers[i - 1]!;
        assert.ok(number === before || number === before + 1, `attempts ${numbers.join()}: none is skipped`);
      }
      const { id, data } = JSON.parse(first!.body.toString()) as { id: string; data: { n: number } };
      assert.equal(id, first!.headers["webhook-id"]);
      seen.add(data.n);
    }
    assert.equal(byDelivery.size, EVENTS / WEBHOOKS);
    assert.equal(seen.size, EVENTS / WEBHOOKS, "every event came");
    return again;
  };
});
