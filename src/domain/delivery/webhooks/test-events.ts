import { sql } from "kysely";
import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { newId } from "../../kernel/ids.ts";
import { Project } from "../../accounts/projects/project.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import { Tenant } from "../../accounts/tenants/tenant.ts";
import type { Work } from "../../kernel/work.ts";
import { type Happened, webhookBody } from "./body.ts";
import { WEBHOOK_TYPES } from "./catalogue/event-types.ts";
import { sampleOf, TEST_TYPE } from "./catalogue/samples.ts";
import { deliveryId, eventsFor, planWebhooks } from "./plan.ts";
import { attemptOf } from "./delivering/record-results.ts";
import { auditWebhook, lockWebhook } from "./registration.ts";
import { liveSecrets } from "./secrets.ts";
import { SEND_TIMEOUT_MS, type WebhookOutcome, type WebhookRequest } from "./delivering/sender.ts";
import { signedRequest } from "./delivering/signing.ts";
import { keptMsOf, readSubscribers } from "./subscribers.ts";
import type { Webhook } from "./webhook.ts";

const reasonOf = (type: string): string =>
  WEBHOOK_TYPES.includes(type) ? `${type} is not available yet` : `unknown event type ${type}`;

const sampleEvent = ({ now }: Work, projectId: string, type: string): Happened => {
  const data = sampleOf(type);
  if (!data) throw invalid("eventType", `${reasonOf(type)}: see GET /webhooks/event-types`);
  return { id: newId(), projectId, type, playerId: null, data: { ...data, test: true }, createdAt: now };
};

/** Returns the project of a test: the webhook's, or the tenant's first. @throws CONFLICT INVALID_STATE */
const projectOf = async ({ db }: Work, { tenantId, projectId }: Webhook): Promise<string> => {
  if (projectId != null) return projectId;
  const found = await sql<{ id: string }>`
    select id from projects where tenant_id = ${tenantId}::uuid and sandbox_of is null and deleted_at is null
    order by id limit 1`.execute(db);
  const [first] = found.rows;
  if (!first) throw conflict("INVALID_STATE", "The tenant has no project for a test: create one");
  return first.id;
};

/** A test that its caller must send, and whose outcome the caller records. */
export type PlannedTest = { webhook: Webhook; deliveryId: string; event: Happened; body: string };

/** Error of a test whose process died during it. */
export const INTERRUPTED = "Laurel was interrupted while it sent the test: send another one";

/**
 * Creates the delivery of a test, which no worker takes: its caller sends it, whatever the webhook's status.
 * Until it is recorded it counts as interrupted, since no other process would finish it.
 * @throws NOT_FOUND, VALIDATION_ERROR for an unknown type, CONFLICT INVALID_STATE without any project
 */
export const planTest = async (
  work: Work,
  { tenantId, webhookId, eventType = TEST_TYPE }: TestRequest,
): Promise<PlannedTest> => {
  const webhook = await lockWebhook(work, tenantId, webhookId);
  const event = sampleEvent(work, await projectOf(work, webhook), eventType);
  const body = webhookBody(event)!;
  const id = deliveryId(webhook.id, event);
  const tenant = await work.em.findOneOrFail(Tenant, { id: tenantId });
  const now = work.now.toISOString();
  const expires = new Date(work.now.getTime() + keptMsOf(tenant)).toISOString();
  await sql`
    insert into webhook_deliveries (webhook_id, id, tenant_id, project_id, event_id, event_type, body,
      is_test, status, error, created_at, updated_at, expires_at)
    values (${webhook.id}::uuid, ${id}::uuid, ${tenantId}::uuid, ${event.projectId}::uuid, ${event.id}::uuid,
      ${eventType}, ${body}, true, 'failed', ${INTERRUPTED}, ${now}::timestamptz, ${now}::timestamptz,
      ${expires}::timestamptz)`.execute(work.db);
  await auditWebhook(work, "tested", webhook, { eventType, deliveryId: id });
  return { webhook, deliveryId: id, event, body };
};
export type TestRequest = { tenantId: string; webhookId: string; eventType?: string | undefined };

/** A test event, and its number of deliveries. */
export type TestEvent = { event: Json; deliveries: number };

/**
 * Adds an example of a type to the feed of a project, and sends it to webhooks subscribed to the type, as if
 * it had happened; its data have `test: true`.
 * @throws VALIDATION_ERROR for an unknown type, NOT_FOUND for the project
 */
export const makeTestEvent = async (
  work: Work,
  { projectId, eventType }: { projectId: string; eventType: string },
): Promise<TestEvent> => {
  if (eventType === TEST_TYPE)
    throw invalid("eventType", `${TEST_TYPE} is for one webhook: POST /webhooks/{webhookId}/test`);
  if ((await work.em.count(Project, { id: projectId })) === 0) throw notFound("Project");
  const event = sampleEvent(work, projectId, eventType);
  const subscribers = await readSubscribers(work, [projectId]);
  const deliveries = await planWebhooks(work, await eventsFor(subscribers, [event], work.now));
  return { event: JSON.parse(webhookBody(event)!) as Json, deliveries };
};

/** The result of a test. */
export type TestResult = {
  success: boolean;
  deliveryId: string;
  responseCode: number | null;
  responseBody: string | null;
  durationMs: number | null;
  error: string | null;
};

/** Builds the single attempt of a test. */
export const testRequest = (
  { secretBox, version }: { secretBox: SecretBox; version: string },
  { webhook, deliveryId: id, event, body }: PlannedTest,
  at: Date,
): WebhookRequest => {
  const signer = { url: webhook.url, secrets: liveSecrets(secretBox, webhook, at), version };
  const signable = { deliveryId: id, eventId: event.id, eventType: event.type, attempt: 1, body };
  return { ...signedRequest(signer, signable, at), timeoutMs: SEND_TIMEOUT_MS };
};

/** Records the outcome of a test, which does not affect the webhook's health. */
export const recordTest = async (
  { db, now }: Work,
  { webhook, deliveryId: id }: PlannedTest,
  { outcome, at }: { outcome: WebhookOutcome; at: Date },
): Promise<TestResult> => {
  const attempt = attemptOf(1, at, outcome);
  await sql`
    update webhook_deliveries set status = ${outcome.isSuccess ? "success" : "failed"}, attempts = 1,
      error = ${attempt.error}, log = ${JSON.stringify([attempt])}::jsonb,
      updated_at = ${now.toISOString()}::timestamptz
    where webhook_id = ${webhook.id}::uuid and id = ${id}::uuid`.execute(db);
  const { responseCode, responseBody, durationMs, error } = attempt;
  return { success: outcome.isSuccess, deliveryId: id, responseCode, responseBody, durationMs, error };
};
