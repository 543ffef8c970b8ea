import { z } from "zod";
import type { App } from "../../app.ts";
import { type Caller, DEVELOPERS, userOf } from "../../domain/kernel/caller.ts";
import { Bulkhead, busy } from "../../domain/kernel/bulkhead.ts";
import { DELIVERY_STATUSES } from "../../domain/delivery/webhooks/delivering/record-results.ts";
import {
  DELIVERY_ORDERS,
  type DeliveryDetail,
  getDelivery,
  INTERRUPTED,
  listDeliveries,
  LISTED_RESPONSE_MAX,
  type PlannedTest,
  planTest,
  recordTest,
  RECOVERED_AT_ONCE,
  recoverWebhook,
  retryDelivery,
  testRequest,
  type TestResult,
} from "../../domain/delivery/webhooks/delivery-list.ts";
import { getWebhook, SECRET_LOST, SECRET_UNREADABLE } from "../../domain/delivery/webhooks/registration.ts";
import {
  notSent,
  SEND_TIMEOUT_MS,
  type WebhookOutcome,
  type WebhookRequest,
} from "../../domain/delivery/webhooks/delivering/sender.ts";
import { Reply } from "../route.ts";
import { Moment, paged, pageReply, Span } from "./bodies.ts";
import { NEEDS_WEBHOOKS, readWebhooks, TYPE_MAX, webhooks, writeWebhooks } from "./webhooks.ts";

const tryOut = webhooks.with({ access: { roles: DEVELOPERS, needs: NEEDS_WEBHOOKS } });

const Answer = {
  responseCode: z.int().nullable(),
  responseBody: z.string().nullable(),
  durationMs: z.int().nullable(),
  error: z.string().nullable().meta({ description: "Why the last attempt failed" }),
};

const DeliveryBody = z
  .object({
    id: z.uuid(),
    webhookId: z.uuid(),
    projectId: z.uuid(),
    eventId: z.uuid().meta({ description: "`id` of the payload: the same on each attempt" }),
    eventType: z.string(),
    status: z.enum(DELIVERY_STATUSES),
    isTest: z.boolean(),
    retryCount: z.int().meta({ description: "Attempts after the first, since it was last started anew" }),
    ...Answer,
    nextAttemptAt: z.iso.datetime().nullable(),
    createdAt: z.iso.datetime(),
    updatedAt: z.iso.datetime(),
  })
  .meta({ id: "WebhookDelivery" });

const DeliveryDetailBody = DeliveryBody.extend({
  attempts: z.array(
    z.object({ attempt: z.int(), at: z.iso.datetime(), ...Answer }).meta({ id: "WebhookAttempt" }),
  ),
  payload: z
    .record(z.string(), z.unknown())
    .nullable()
    .meta({ description: "null for a DESIGNER, who may not see players' data" }),
}).meta({ id: "WebhookDeliveryDetail" });

const targetOf = (caller: Caller, params: { webhookId: string; deliveryId: string }) => ({
  tenantId: userOf(caller).tenantId,
  ...params,
});

/** Hides request and response bodies from callers who may not see players' data, which they contain. */
const shownTo = (caller: Caller, delivery: DeliveryDetail): DeliveryDetail => {
  if (userOf(caller).role !== "DESIGNER") return delivery;
  const attempts = delivery.attempts.map((attempt) => ({ ...attempt, responseBody: null }));
  return { ...delivery, responseBody: null, attempts, payload: null };
};

/** Maximum number of concurrent tests per tenant and process: more would take capacity from deliveries. */
const TESTS_AT_ONCE = 4;
const tests = new Bulkhead({ ofKey: { slots: TESTS_AT_ONCE, waiting: 0 }, refusal: busy });

const requestOf = (app: App, planned: PlannedTest, at: Date): WebhookRequest | undefined => {
  const { secretBox, config, log } = app;
  try {
    return testRequest({ secretBox, version: config.version }, planned, at);
  } catch (err) {
    log.error({ err, webhookId: planned.webhook.id }, SECRET_LOST);
    return undefined;
  }
};

/** Sends a test, unless too many are in flight, which its owner is informed of. */
const tryTest = async (app: App, planned: PlannedTest, at: Date): Promise<WebhookOutcome> => {
  const { tenantId } = planned.webhook;
  if (!tests.tryAcquire(tenantId))
    return notSent(`${TESTS_AT_ONCE} tests of yours are in progress: wait until they have ended`);
  try {
    const request = requestOf(app, planned, at);
    return request === undefined ? notSent(SECRET_UNREADABLE) : await app.webhookSender.send(request);
  } finally {
    tests.release(tenantId);
  }
};

const sendTest = async (app: App, planned: PlannedTest): Promise<TestResult> => {
  const at = app.clock();
  const outcome = await tryTest(app, planned, at);
  return app.transact((work) => recordTest(work, planned, { outcome, at }));
};

const TestResultBody = z.object({ success: z.boolean(), deliveryId: z.uuid(), ...Answer });

export const webhookDeliveryRoutes = [
  readWebhooks.get("/webhooks/{webhookId}/deliveries", "listWebhookDeliveries", {
    summary: "List the deliveries of a webhook",
    description:
      "By the time of the events, the newest first. Kept for 30 days (PRO) or 90 (ENTERPRISE). " +
      `\`responseBody\` is cut to ${LISTED_RESPONSE_MAX} characters here.`,
    ...paged(DeliveryBody, DELIVERY_ORDERS, {
      status: z.enum(DELIVERY_STATUSES).optional(),
      eventType: z.string().min(1).max(TYPE_MAX).optional(),
      eventId: z.uuid().optional(),
      ...Span.shape,
    }),
    run: async (work, { caller, params, query }) => {
      const webhook = await getWebhook(work, userOf(caller).tenantId, params.webhookId);
      const isHidden = userOf(caller).role === "DESIGNER";
      return pageReply(await listDeliveries(work, webhook, query), "deliveries", query, (one) =>
        isHidden ? { ...one, responseBody: null } : one,
      );
    },
  }),
  readWebhooks.get("/webhooks/{webhookId}/deliveries/{deliveryId}", "getWebhookDelivery", {
    summary: "Get a delivery with its attempts and payload",
    response: DeliveryDetailBody,
    run: async (work, { caller, params }) => {
      const webhook = await getWebhook(work, userOf(caller).tenantId, params.webhookId);
      return shownTo(caller, await getDelivery(work, webhook, params.deliveryId));
    },
  }),
  tryOut.post("/webhooks/{webhookId}/test", "testWebhook", {
    summary: "Send a test event to a webhook",
    description:
      `One attempt of at most ${SEND_TIMEOUT_MS / 1_000} seconds, signed as any other; \`data.test\` is ` +
      "true. It works whatever the status, changes no health, and is in the list of deliveries. " +
      `At most ${TESTS_AT_ONCE} of a tenant are on their way at once.`,
    body: z.strictObject({
      eventType: z
        .string()
        .min(1)
        .max(TYPE_MAX)
        .optional()
        .meta({ description: "An example of this type. Default: `webhook.test`" }),
    }),
    example: { eventType: "player.level_up" },
    response: TestResultBody,
    run: async (work, { caller, params, body }) => {
      const { tenantId } = userOf(caller);
      const planned = await planTest(work, { tenantId, ...params, ...body });
      const nothingYet = { responseCode: null, responseBody: null, durationMs: null, error: INTERRUPTED };
      const { deliveryId } = planned;
      return Reply.provisional({ success: false, deliveryId, ...nothingYet }, (whole) =>
        sendTest(whole, planned),
      );
    },
  }),
  tryOut.post("/webhooks/{webhookId}/deliveries/{deliveryId}/retry", "retryWebhookDelivery", {
    summary: "Send a delivery again",
    description: "At once, with the same id and body, and with all its attempts if it fails.",
    body: z.strictObject({}),
    example: {},
    response: DeliveryDetailBody,
    run: async (work, { caller, params }) => retryDelivery(work, targetOf(caller, params)),
  }),
  writeWebhooks.post("/webhooks/{webhookId}/recover", "recoverWebhook", {
    summary: "Resend the events that a webhook has missed",
    description:
      "Events of the span that it wants now and was never sent, or whose delivery has failed. Events are " +
      "kept while the project has a webhook or a reader of its feed. One call looks at " +
      `${RECOVERED_AT_ONCE.toLocaleString("en")} events: call again with \`nextSince\` until it is null.`,
    body: z.strictObject({
      since: Moment,
      until: Moment.optional().meta({ description: "Default: now" }),
    }),
    example: { since: "2026-01-01T00:00:00Z", until: "2026-01-02T00:00:00Z" },
    response: z.object({
      queued: z.int().meta({ description: "Deliveries that this call has started" }),
      nextSince: z.iso.datetime().nullable(),
    }),
    run: (work, { caller, params, body }) =>
      recoverWebhook(work, { tenantId: userOf(caller).tenantId, ...params, ...body }),
  }),
];
