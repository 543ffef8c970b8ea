import assert from "node:assert/strict";
import {
  claimDeliveries,
  type ClaimedDelivery,
  LEASE_MS,
} from "../../src/domain/delivery/webhooks/delivering/claim.ts";
import {
  ATTEMPT_DELAYS_MS,
  ATTEMPTS_MAX,
  recordResults,
  waitAfter,
} from "../../src/domain/delivery/webhooks/delivering/record-results.ts";
import type { WebhookOutcome } from "../../src/domain/delivery/webhooks/delivering/sender.ts";
import { Webhook } from "../../src/domain/delivery/webhooks/registration.ts";
import { openWebhookApp } from "../support/webhooks/webhook-app.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

const MINUTE_MS = 60_000;
const SENT_MS = 1_500;
/** What an endpoint may answer. */
const answer = (responseCode: number, more: Partial<WebhookOutcome> = {}): WebhookOutcome => ({
  isSuccess: responseCode >= 200 && responseCode < 300,
  responseCode,
  responseBody: "body",
  durationMs: SENT_MS,
  error: responseCode < 300 ? null : `it answered ${responseCode}`,
  isRefused: false,
  retryAfterSeconds: null,
  ...more,
});

describe("the schedule of deliveries", () => {
  const hooks = madeOnce(
    () => openWebhookApp(),
    (made) => made.close(),
  );
  const site = madeOnce(() => hooks.aSite());

  const claim = (webhookId: string, count = 10): Promise<ClaimedDelivery[]> =>
    hooks.app.transact((work) => claimDeliveries(work, new Map([[webhookId, count]])));
  const note = (delivery: ClaimedDelivery, outcome: WebhookOutcome, random = 0): Promise<number> => {
    const endedAt = hooks.app.clock();
    const startedAt = new Date(endedAt.getTime() - outcome.durationMs);
    const result = { delivery, outcome, startedAt, endedAt, random };
    return hooks.app.transact((work) => recordResults(work, hooks.app.mail, [result]));
  };
  /** Claims the one that is due, lets it take its time, and notes what came of it. */
  const attempt = async (webhookId: string, outcome: WebhookOutcome, random = 0): Promise<void> => {
    const [delivery, ...others] = await claim(webhookId);
    assert.ok(delivery, "one is due");
    assert.deepEqual(others, []);
    hooks.pass(outcome.durationMs);
    await note(delivery, outcome, random);
  };
  const only = async (webhookId: string) => {
    const [delivery, ...others] = await hooks.deliveries(webhookId);
    assert.deepEqual(others, []);
    return delivery!;
  };

  it("waits 0, 1, 5, 30 and 120 minutes from the end of the attempt before, up to 5 % longer", async () => {
    for (const random of [0, 0.5, 1]) {
      const { id } = await hooks.aWebhook(site);
      await hooks.happen(site);
      for (const [i, wait] of [0, 1, 5, 30, 120].entries()) {
        const waitMs = Math.round(wait * MINUTE_MS * (1 + 0.05 * random));
        if (i > 0) {
          const { dueAt, nextAttemptAt } = await only(id);
          assert.equal(dueAt!.getTime() - hooks.app.clock().getTime(), waitMs);
          assert.deepEqual(nextAttemptAt, dueAt);
          hooks.pass(waitMs - 1);
          assert.deepEqual(await claim(id), [], "not a moment before");
          hooks.pass(1);
        }
        await attempt(id, answer(500), random);
      }
      const { status, attempts, log, dueAt } = await only(id);
      assert.deepEqual([status, attempts, dueAt], ["failed", 5, null]);
      assert.deepEqual(pluck(log, "attempt"), [1, 2, 3, 4, 5]);
      hooks.pass(24 * 60 * MINUTE_MS);
      assert.deepEqual(await claim(id), []);
      await hooks.app.transact(({ em }) => em.nativeDelete(Webhook, { id }));
    }
  });

  it("adds chance upwards only, and follows Retry-After from the wait to twice the wait", () => {
    for (let attempts = 1; attempts < ATTEMPTS_MAX; attempts++) {
      const base = ATTEMPT_DELAYS_MS[attempts]!;
      const wait = (retryAfterSeconds: number | null, random = 0) =>
        waitAfter(attempts, { random, retryAfterSeconds });
      assert.equal(wait(null), base);
      assert.equal(wait(null, 1), Math.round(base * 1.05));
      assert.equal(wait(1), base, "not sooner than the table says");
      assert.equal(wait((base / 1_000) * 1.5), base * 1.5);
      assert.equal(wait(1e9), base * 2, "not later than twice that");
    }
    assert.equal(waitAfter(ATTEMPTS_MAX, { random: 0, retryAfterSeconds: 10 }), undefined);
  });

  it("counts only attempts that were recorded: one that was lost is made again with its number", async () => {
    const { id } = await hooks.aWebhook(site);
    await hooks.happen(site);
    const [lost] = await claim(id);
    hooks.pass(LEASE_MS - 1);
    assert.deepEqual(await claim(id), [], "it is another's until the lease ends");
    hooks.pass(1);
    const [again] = await claim(id);
    assert.deepEqual([again!.id, again!.attempts, again!.body], [lost!.id, 0, lost!.body]);

    await note(lost!, answer(500));
    assert.equal((await only(id)).attempts, 0, "a failure counts for who has the lease");
    await note(lost!, answer(200));
    assert.equal((await only(id)).status, "success", "a success counts whoever has it");
    await note(again!, answer(500));
    const { status, attempts } = await only(id);
    assert.deepEqual([status, attempts], ["success", 1], "and it is over then");
  });
});
