import assert from "node:assert/strict";
import { claimDeliveries } from "../../src/domain/delivery/webhooks/delivering/claim.ts";
import { recordResults, type Result } from "../../src/domain/delivery/webhooks/delivering/record-results.ts";
import type { WebhookOutcome } from "../../src/domain/delivery/webhooks/delivering/sender.ts";
import { failWaitingWebhooks } from "../../src/jobs/sweeps.ts";
import { openWebhookApp } from "../support/webhooks/webhook-app.ts";
import { madeForEach, madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const outcome = (responseCode: number): WebhookOutcome => ({
  isSuccess: responseCode < 300,
  responseCode,
  responseBody: "",
  durationMs: 5,
  error: responseCode < 300 ? null : `it answered ${responseCode}`,
  isRefused: false,
  retryAfterSeconds: null,
});

describe("the health of a webhook", () => {
  const hooks = madeOnce(
    () => openWebhookApp(),
    (made) => made.close(),
  );
  const site = madeForEach(() => hooks.aSite());

  /** Sends all that is due, and gets these answers in turn. */
  const answerDue = (webhookId: string, ...answers: number[]): Promise<number> =>
    hooks.app.transact(async (work) => {
      const claimed = await claimDeliveries(work, new Map([[webhookId, 100]]));
      const results = claimed.map((delivery, i): Result => {
        const at = work.now;
        return {
          delivery,
          outcome: outcome(answers[i % answers.length]!),
          startedAt: at,
          endedAt: at,
          random: 0,
        };
      });
      await recordResults(work, hooks.app.mail, results);
      return claimed.length;
    });
  /** Has an event given up. */
  const exhaust = async (webhookId: string): Promise<void> => {
    await hooks.happen(site);
    for (let i = 0; i < 5; i++) {
      assert.equal(await answerDue(webhookId, 500), 1);
      hooks.pass(2 * HOUR_MS);
    }
  };
  const succeed = async (webhookId: string): Promise<void> => {
    await hooks.happen(site);
    await answerDue(webhookId, 200);
  };

  it("is FAILED when a delivery is given up, which is mailed, and ACTIVE by a success", async () => {
    const { id } = await hooks.aWebhook(site);
    const first = hooks.app.clock();
    await exhaust(id);
    const failed = await hooks.webhook(id);
    assert.deepEqual([failed.status, failed.exhausted, failed.lastSuccessAt], ["FAILED", 1, null]);
    assert.deepEqual(failed.failingSince, first);
    assert.deepEqual(failed.lastFailureAt, new Date(hooks.app.clock().getTime() - 2 * HOUR_MS));
    for (const to of [site.owner, site.admin]) assert.deepEqual(await hooks.mails(to), ["webhook-failing"]);

    await exhaust(id);
    assert.equal((await hooks.webhook(id)).exhausted, 2);
    assert.deepEqual(await hooks.mails(site.owner), ["webhook-failing"], "one for the transition");

    await succeed(id);
    const well = await hooks.webhook(id);
    assert.deepEqual([well.status, well.exhausted, well.failingSince], ["ACTIVE", 0, null]);
    assert.deepEqual(well.lastSuccessAt, hooks.app.clock());
    await exhaust(id);
    assert.deepEqual(await hooks.mails(site.owner), ["webhook-failing", "webhook-failing"]);
  });

  it("stays ACTIVE while failures are made good by later attempts", async () => {
    const { id } = await hooks.aWebhook(site);
    await hooks.happen(site, [{ n: 1 }, { n: 2 }, { n: 3 }]);
    await answerDue(id, 500, 200, 503);
    const failing = await hooks.webhook(id);
    assert.deepEqual([failing.status, failing.exhausted], ["ACTIVE", 0]);
    assert.deepEqual(failing.failingSince, hooks.app.clock(), "the last of them failed");
    hooks.pass(HOUR_MS);
    assert.equal(await answerDue(id, 200), 2);
    const well = await hooks.webhook(id);
    assert.deepEqual([well.status, well.failingSince], ["ACTIVE", null]);
    assert.deepEqual(await hooks.mails(site.owner), []);
  });

  it("is DISABLED after 5 days without a success and three deliveries given up", async () => {
    const { id } = await hooks.aWebhook(site);
    for (let i = 0; i < 4; i++) await exhaust(id);
    assert.equal((await hooks.webhook(id)).status, "FAILED", "not before the days are over");
    hooks.pass(5 * DAY_MS);
    await hooks.happen(site);
    await answerDue(id, 500);
    const disabled = await hooks.webhook(id);
    assert.deepEqual([disabled.status, disabled.disabledReason], ["DISABLED", "No success for 5 days"]);
    assert.deepEqual(await hooks.mails(site.admin), ["webhook-failing", "webhook-disabled"]);
    hooks.pass(HOUR_MS);
    assert.equal(await answerDue(id, 200), 0, "what waits is not sent");
    const before = (await hooks.deliveries(id)).length;
    await hooks.happen(site);
    assert.equal((await hooks.deliveries(id)).length, before, "and nothing new is planned");
  });

  it("is not DISABLED by time alone: two given up, or a success in between, and it goes on", async () => {
    const { id } = await hooks.aWebhook(site);
    for (let i = 0; i < 2; i++) await exhaust(id);
    hooks.pass(6 * DAY_MS);
    await hooks.happen(site);
    await answerDue(id, 500);
    assert.equal((await hooks.webhook(id)).status, "FAILED");
    hooks.pass(HOUR_MS);
    await answerDue(id, 200);
    for (let i = 0; i < 3; i++) await exhaust(id);
    assert.equal((await hooks.webhook(id)).status, "FAILED");
  });

  it("is DISABLED by a 410 at once, once", async () => {
    const { id } = await hooks.aWebhook(site);
    await hooks.happen(site, [{ n: 1 }, { n: 2 }, { n: 3 }]);
    await answerDue(id, 410);
    const { status, disabledReason } = await hooks.webhook(id);
    assert.deepEqual([status, disabledReason], ["DISABLED", "The endpoint answered 410 Gone"]);
    assert.deepEqual(await hooks.mails(site.owner), ["webhook-disabled"]);
    assert.deepEqual(pluck(await hooks.deliveries(id), "status"), ["failed", "failed", "failed"]);
  });

  it("is no concern of tests: they are sent once, whatever comes of them", async () => {
    const { id } = await hooks.aWebhook(site);
    await hooks.happen(site);
    await hooks.sql`update webhook_deliveries set is_test = true, body = '{"n":1}' where webhook_id = ${id}`;
    await answerDue(id, 410);
    const [test] = await hooks.deliveries(id);
    assert.deepEqual([test!.status, test!.attempts, test!.error], ["failed", 1, "it answered 410"]);
    const { status, lastFailureAt, failingSince } = await hooks.webhook(id);
    assert.deepEqual([status, lastFailureAt, failingSince], ["ACTIVE", null, null]);
    assert.deepEqual(await hooks.mails(site.owner), []);
  });

  it("PAUSED or suspended lets deliveries wait uncounted, and gives them up after 72 hours", async () => {
    const { id } = await hooks.aWebhook(site);
    const other = await hooks.aWebhook(site);
    const set = (status: string) => hooks.sql`update webhooks set status = ${status} where id = ${id}`;
    const approval = (status: string) =>
      hooks.sql`update tenants set approval_status = ${status} where id = ${site.tenantId}`;
    await hooks.happen(site);
    await set("PAUSED");
    assert.equal(await answerDue(id, 200), 0);
    await set("ACTIVE");
    await approval("SUSPENDED");
    assert.equal(await answerDue(other.id, 200), 0);
    hooks.pass(71 * HOUR_MS);
    await failWaitingWebhooks.run(hooks.app, "*");
    await approval("APPROVED");
    assert.equal(await answerDue(other.id, 200), 1, "it waited, and is sent");

    await set("PAUSED");
    hooks.pass(HOUR_MS - 1);
    await failWaitingWebhooks.run(hooks.app, "*");
    assert.equal((await hooks.deliveries(id))[0]!.status, "pending");
    hooks.pass(1);
    await failWaitingWebhooks.run(hooks.app, "*");
    const [given] = await hooks.deliveries(id);
    assert.deepEqual(
      [given!.status, given!.attempts, given!.error, given!.dueAt],
      ["failed", 0, "It waited 72 h while the webhook was paused", null],
    );
    assert.equal((await hooks.webhook(id)).status, "PAUSED");
  });
});
