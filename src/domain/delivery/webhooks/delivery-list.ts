import { type RawBuilder, sql } from "kysely";
import { Project } from "../../accounts/projects/project.ts";
import { Tenant } from "../../accounts/tenants/tenant.ts";
import { isSubscribed, sampleOf, TEST_TYPE, WEBHOOK_TYPES } from "./catalogue.ts";
import { type Attempt, attemptOf, type DeliveryStatus } from "./delivering/record-results.ts";
import { SEND_TIMEOUT_MS, type WebhookOutcome, type WebhookRequest } from "./delivering/sender.ts";
import { signedRequest } from "./delivering/signing.ts";
import {
  deliveryId,
  eventsFor,
  type Happened,
  keptMsOf,
  planWebhooks,
  readSubscribers,
  webhookBody,
} from "./plan.ts";
import { auditWebhook, liveSecrets, lockWebhook, type Webhook } from "./registration.ts";
import { conflict, invalid, notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { idFloor, isId, newId } from "../../kernel/ids.ts";
import { type RowOf, shownRow } from "../../kernel/json.ts";
import { offsetOf, orderBy, type Ordered, type PageQuery, type SortOf } from "../../kernel/paging.ts";
import type { SecretBox } from "../../kernel/secret-box.ts";
import { countRows, type Total, type Work } from "../../kernel/work.ts";

/** Maximum characters of a response shown in a list. */
export const LISTED_RESPONSE_MAX = 1_000;

/**
 * A webhook's delivery of one event, past or planned. The last attempt's response is shown at the top level.
 */
type Delivery = {
  id: string;
  webhookId: string;
  projectId: string;
  eventId: string;
  eventType: string;
  status: DeliveryStatus;
  isTest: boolean;
  /** Number of retries since it was last restarted. */
  retryCount: number;
  responseCode: number | null;
  responseBody: string | null;
  durationMs: number | null;
  error: string | null;
  nextAttemptAt: string | null;
  createdAt: string;
  updatedAt: string;
};
export type DeliveryDetail = Delivery & {
  attempts: Attempt[];
  /** null when the event is no longer kept. */
  payload: Json | null;
};

/** Orders of the list. */
export const DELIVERY_ORDERS = { by: { createdAt: sql`d.id` }, usual: "desc" } as const;

type ListDeliveries = PageQuery &
  Ordered<SortOf<typeof DELIVERY_ORDERS>> & {
    status?: DeliveryStatus | undefined;
    eventType?: string | undefined;
    eventId?: string | undefined;
    /** Times of the event. */
    from?: Date | undefined;
    to?: Date | undefined;
  };

/** Of the log only the last attempt is read. */
const COLUMNS =
  sql.raw(`d.id, d.webhook_id as "webhookId", d.project_id as "projectId", d.event_id as "eventId",
  d.event_type as "eventType", d.status, d.is_test as "isTest", greatest(0, d.attempts - 1) as "retryCount",
  d.log -> -1 -> 'responseCode' as "responseCode", d.log -> -1 -> 'responseBody' as "responseBody",
  d.log -> -1 -> 'durationMs' as "durationMs", d.error, d.next_attempt_at as "nextAttemptAt",
  d.created_at as "createdAt", d.updated_at as "updatedAt"`);

/** Ids of deliveries begin with the time of their events. */
const conditions = (webhook: Webhook, query: ListDeliveries): RawBuilder<unknown> => {
  const { status, eventType, eventId, from, to } = query;
  const all = [
    sql`d.webhook_id = ${webhook.id}::uuid`,
    ...(status === undefined ? [] : [sql`d.status = ${status}`]),
    ...(eventType === undefined ? [] : [sql`d.event_type = ${eventType}`]),
    ...(eventId === undefined ? [] : [sql`d.event_id = ${eventId}::uuid`]),
    ...(from === undefined ? [] : [sql`d.id >= ${idFloor(from.getTime())}::uuid`]),
    ...(to === undefined ? [] : [sql`d.id < ${idFloor(to.getTime())}::uuid`]),
  ];
  return sql.join(all, sql` and `);
};

/** Lists a webhook's deliveries by the time of the events, newest first. */
export const listDeliveries = async (
  work: Work,
  webhook: Webhook,
  query: ListDeliveries,
): Promise<Total & { deliveries: Delivery[] }> => {
  const where = conditions(webhook, query);
  const found = await sql<RowOf<Delivery>>`
    select ${COLUMNS} from webhook_deliveries d where ${where}
    order by ${orderBy(DELIVERY_ORDERS, query, sql`d.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  const deliveries = found.rows.map((row) => ({
    ...shownRow<Delivery>(row),
    responseBody: row.responseBody?.slice(0, LISTED_RESPONSE_MAX).toWellFormed() ?? null,
  }));
  return { deliveries, ...(await countRows(work, sql`webhook_deliveries d where ${where}`)) };
};

/** @throws NOT_FOUND, also for another webhook's */
export const getDelivery = async (work: Work, webhook: Webhook, id: string): Promise<DeliveryDetail> => {
  const found = isId(id)
    ? await sql<RowOf<Delivery & { attempts: Attempt[]; body: string | null }>>`
        select ${COLUMNS}, d.log as attempts, coalesce(d.body, e.body) as body
        from webhook_deliveries d
        left join webhook_events e on e.project_id = d.project_id and e.seq = d.event_seq
        where d.webhook_id = ${webhook.id}::uuid and d.id = ${id}::uuid`.execute(work.db)
    : { rows: [] };
  const [row] = found.rows;
  if (!row) throw notFound("Delivery");
  const { body, ...delivery } = row;
  return {
    ...shownRow<Omit<DeliveryDetail, "payload">>(delivery),
    payload: body === null ? null : (JSON.parse(body) as Json),
  };
};

/** Maximum number of events examined per call of recover. */
export const RECOVERED_AT_ONCE = 20_000;

const refuseDisabled = ({ status }: Webhook): void => {
  if (status === "DISABLED")
    throw conflict("INVALID_STATE", "The webhook is DISABLED: PATCH its status to ACTIVE first");
};

/**
 * Restarts a delivery: at once, with all its attempts. Its log continues.
 * @throws NOT_FOUND, CONFLICT INVALID_STATE for one that is pending or a test, whose event is no longer kept,
 * or of a DISABLED webhook
 */
export const retryDelivery = async (
  work: Work,
  { tenantId, webhookId, deliveryId: id }: { tenantId: string; webhookId: string; deliveryId: string },
): Promise<DeliveryDetail> => {
  const webhook = await lockWebhook(work, tenantId, webhookId);
  const { status, isTest, payload } = await getDelivery(work, webhook, id);
  refuseDisabled(webhook);
  if (isTest) throw conflict("INVALID_STATE", "A test cannot be resent: send another one");
  if (payload === null)
    throw conflict("INVALID_STATE", "The event is no longer kept, or its player was erased");
  const now = work.now.toISOString();
  const started = await sql`
    update webhook_deliveries set status = 'pending', attempts = 0, error = null,
      due_at = ${now}::timestamptz, next_attempt_at = ${now}::timestamptz, updated_at = ${now}::timestamptz
    where webhook_id = ${webhook.id}::uuid and id = ${id}::uuid and status <> 'pending'
    returning 1`.execute(work.db);
  if (started.rows.length === 0)
    throw conflict("INVALID_STATE", `The delivery is ${status}: its next attempt is automatic`);
  await auditWebhook(work, "delivery_retried", webhook, { deliveryId: id });
  work.wakeWebhooks([webhook.id]);
  return getDelivery(work, webhook, id);
};

/** `nextSince` continues where the call has stopped; null when it has examined all. */
type Recovered = { queued: number; nextSince: string | null };
type Recovery = { tenantId: string; webhookId: string; since: Date; until?: Date | undefined };

type Missed = { project: string; seq: number; id: string; type: string; at: Date };

/**
 * Resends what a webhook has missed in a span of time: events that match its subscription now and were never
 * sent to it, or whose delivery has failed. Examines RECOVERED_AT_ONCE events, oldest first.
 * @throws NOT_FOUND, VALIDATION_ERROR, CONFLICT INVALID_STATE for a DISABLED webhook
 */
export const recoverWebhook = async (work: Work, recovery: Recovery): Promise<Recovered> => {
  const { tenantId, webhookId, since, until = work.now } = recovery;
  const webhook = await lockWebhook(work, tenantId, webhookId);
  refuseDisabled(webhook);
  if (since >= until) throw invalid("since", "must be before until (default: now)");
  const events = await readEvents(work, webhook, { since, until });
  const seen = events.slice(0, RECOVERED_AT_ONCE);
  const queued = await queue(
    work,
    webhook,
    seen.filter(({ type }) => isSubscribed(webhook.events, type)),
  );
  const next = events.length > seen.length ? events.at(-1)!.at.toISOString() : null;
  await auditWebhook(work, "recovered", webhook, { since: since.toISOString(), queued });
  if (queued > 0) work.wakeWebhooks([webhook.id]);
  return { queued, nextSince: next };
};

const readEvents = async (
  { db }: Work,
  { tenantId, projectId }: Webhook,
  { since, until }: { since: Date; until: Date },
): Promise<Missed[]> => {
  const projects =
    projectId == null
      ? sql`select id from projects where tenant_id = ${tenantId}::uuid and sandbox_of is null
          and deleted_at is null`
      : sql`select ${projectId}::uuid`;
  const found = await sql<Missed>`
    select e.project_id as project, e.seq, e.id, e.type, e.created_at as at from webhook_events e
    where e.project_id in (${projects}) and e.created_at >= ${since.toISOString()}::timestamptz
      and e.created_at < ${until.toISOString()}::timestamptz and e.body is not null
    order by e.created_at, e.project_id, e.seq limit ${RECOVERED_AT_ONCE + 1}`.execute(db);
  return found.rows;
};

/** Creates missing deliveries, and restarts failed ones. @returns how many */
const queue = async ({ db, now }: Work, webhook: Webhook, events: readonly Missed[]): Promise<number> => {
  if (events.length === 0) return 0;
  const rows = events.map(({ project, seq, id, at }) => ({
    p: project,
    s: seq,
    i: deliveryId(webhook.id, { id, createdAt: at }),
  }));
  const at = sql`${now.toISOString()}::timestamptz`;
  const queued = await sql`
    insert into webhook_deliveries as d (webhook_id, id, tenant_id, project_id, event_seq, event_id,
      event_type, status, due_at, next_attempt_at, created_at, updated_at, expires_at)
    select ${webhook.id}::uuid, x.i, e.tenant_id, e.project_id, e.seq, e.id, e.type, 'pending', ${at}, ${at},
      ${at}, ${at}, e.expires_at
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(p uuid, s bigint, i uuid)
    join webhook_events e on e.project_id = x.p and e.seq = x.s
    on conflict (webhook_id, id) do update set status = 'pending', attempts = 0, error = null,
      due_at = excluded.due_at, next_attempt_at = excluded.next_attempt_at, updated_at = excluded.updated_at
      where d.status = 'failed'
    returning 1`.execute(db);
  return queued.rows.length;
};

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
type TestRequest = { tenantId: string; webhookId: string; eventType?: string | undefined };

/** A test event, and its number of deliveries. */
type TestEvent = { event: Json; deliveries: number };

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
export type TestResult = { success: boolean; deliveryId: string } & Pick<
  Delivery,
  "responseCode" | "responseBody" | "durationMs" | "error"
>;

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
