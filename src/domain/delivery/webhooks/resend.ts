import { sql } from "kysely";
import { conflict, invalid } from "../../kernel/errors.ts";
import type { Work } from "../../kernel/work.ts";
import { type DeliveryDetail, getDelivery } from "./delivery-list.ts";
import { isSubscribed } from "./catalogue/event-types.ts";
import { deliveryId } from "./plan.ts";
import { auditWebhook, lockWebhook } from "./registration.ts";
import type { Webhook } from "./webhook.ts";

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
export type Recovered = { queued: number; nextSince: string | null };
export type Recovery = { tenantId: string; webhookId: string; since: Date; until?: Date | undefined };

type Missed = { project: string; seq: string | number; id: string; type: string; at: Date | string };

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
  const next = events.length > seen.length ? new Date(events.at(-1)!.at).toISOString() : null;
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
    s: Number(seq),
    i: deliveryId(webhook.id, { id, createdAt: new Date(at) }),
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
