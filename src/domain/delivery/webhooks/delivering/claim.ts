import { type RawBuilder, sql } from "kysely";
import { SEND_TIMEOUT_MS } from "./sender.ts";
import { CONCERNS_ERASED, ERASED_ERROR } from "../plan.ts";
import type { Webhook } from "../registration.ts";
import { hasFeature, PLANS } from "../../../kernel/caller.ts";
import { NIL_ID, OUTBOX_PARTITIONS } from "../../../kernel/ids.ts";
import { kept } from "../../../kernel/statements.ts";
import type { Work } from "../../../kernel/work.ts";

/** Longer than an attempt may take, so that another process takes over only from a dead one. */
export const LEASE_MS = SEND_TIMEOUT_MS + 15_000;
/** Number of webhooks examined per sweep; the next one continues after them. */
const SWEPT_AT_ONCE = 2_000;

/** Where a sweep begins. */
export const FIRST_WEBHOOK = NIL_ID;

const PLANS_WITH = PLANS.filter((plan) => hasFeature({ plan }, "webhooks"));
/** Whether a webhook `w` of tenant `t` is being delivered to. */
const IS_SERVED = sql`w.deleted_at is null and w.status in ('ACTIVE', 'FAILED')
  and t.deleted_at is null and t.approval_status = 'APPROVED'
  and t.plan = any(${sql.lit(`{${PLANS_WITH.join(",")}}`)}::text[])`;

type Due = { id: string; tenantId: string };

/**
 * Whether any delivery is pending, whenever it is due: the first entry of an index that holds no others. Only
 * then it pays to look at each webhook.
 */
export const areDeliveriesPending = (): RawBuilder<unknown> => sql`exists (
  select from (
    select from webhook_deliveries where status = 'pending' order by webhook_id, due_at, id limit 1) d)`;

/**
 * Returns webhooks with a due delivery, among the next ones after `after`: one index look-up each.
 * @returns also where the next sweep begins
 */
export const findDue = async ({ db, now }: Work, after: string): Promise<{ due: Due[]; next: string }> => {
  const { rows } = await sql<{ due: Due[]; seen: number; last: string | null }>`
    with page as materialized (
      select w.id, w.tenant_id, w.status, w.deleted_at from webhooks w
      where w.id > ${after}::uuid order by w.id limit ${SWEPT_AT_ONCE})
    select (select count(*) from page) as seen, (select id from page order by id desc limit 1) as last,
      coalesce((
        select json_agg(json_build_object('id', w.id, 'tenantId', w.tenant_id))
        from page w join tenants t on t.id = w.tenant_id
        where ${IS_SERVED} and exists (
          select from webhook_deliveries d
          where d.webhook_id = w.id and d.status = 'pending'
            and d.due_at <= ${now.toISOString()}::timestamptz)
      ), '[]') as due`.execute(db);
  const { due, seen, last } = rows[0]!;
  return { due, next: seen === SWEPT_AT_ONCE ? last! : FIRST_WEBHOOK };
};

/** A delivery that this process alone sends until `leasedUntil`, and its webhook as of the claim. */
export type ClaimedDelivery = {
  id: string;
  eventId: string;
  eventType: string;
  /** The exact text; null when it must no longer be sent. */
  body: string | null;
  /** Why there is none. */
  missing: string | null;
  isTest: boolean;
  /** Number of attempts recorded in this cycle. */
  attempts: number;
  /** Whether no attempt was ever recorded. */
  isNew: boolean;
  happenedAt: Date;
  leasedUntil: Date;
  webhook: Pick<
    Webhook,
    | "id"
    | "tenantId"
    | "url"
    | "status"
    | "secret"
    | "previousSecret"
    | "previousSecretExpiresAt"
    | "lastSuccessAt"
    | "failingSince"
  >;
};

type ClaimRow = Omit<ClaimedDelivery, "missing" | "leasedUntil" | "webhook"> &
  Omit<ClaimedDelivery["webhook"], "id"> & { webhookId: string; isErased: boolean; isProjectGone: boolean };

/** Of a delivery with its event `e`, if that is kept. */
const IS_ERASED = sql`(e.seq is not null and (e.body is null or ${CONCERNS_ERASED}))`;

/**
 * Claims the longest due deliveries of each named webhook, up to a number, for LEASE_MS: one statement.
 * Webhooks that are no longer delivered to yield nothing, so everything sent was valid in the database a
 * moment ago.
 * @param wanted numbers by webhook
 */
export const claimDeliveries = async (
  { db, now }: Work,
  wanted: ReadonlyMap<string, number>,
): Promise<ClaimedDelivery[]> => {
  if (wanted.size === 0) return [];
  const asked = [...wanted].map(([w, n]) => ({ w, n }));
  const leasedUntil = new Date(now.getTime() + LEASE_MS);
  // The rows are found by their ctids: whatever the statistics say, only those are read.
  const { rows } = await kept(
    db,
    sql<ClaimRow>`
    with served as materialized (
      select w.*, x.n from json_to_recordset(${JSON.stringify(asked)}::json) as x(w uuid, n int)
      join webhooks w on w.id = x.w join tenants t on t.id = w.tenant_id
      where ${IS_SERVED}),
    taken as (
      update webhook_deliveries d set due_at = ${leasedUntil.toISOString()}::timestamptz
      where d.ctid = any(array(
        select one.ctid from served cross join lateral (
          select q.ctid from webhook_deliveries q
          where q.webhook_id = served.id and q.status = 'pending'
            and q.due_at <= ${now.toISOString()}::timestamptz
          order by q.due_at, q.id limit served.n for update skip locked) one))
      returning d.webhook_id, d.id, d.event_id, d.event_type, d.is_test, d.attempts, d.log, d.body,
        d.project_id, d.event_seq, d.created_at)
    select d.id, d.event_id as "eventId", d.event_type as "eventType", d.is_test as "isTest", d.attempts,
      d.log = '[]' as "isNew", coalesce(e.created_at, d.created_at) as "happenedAt",
      case when not x.is_erased and not x.is_project_gone then coalesce(d.body, e.body) end as body,
      x.is_erased as "isErased", x.is_project_gone as "isProjectGone", w.id as "webhookId",
      w.tenant_id as "tenantId", w.url, w.status, w.secret, w.previous_secret as "previousSecret",
      w.previous_secret_expires_at as "previousSecretExpiresAt", w.last_success_at as "lastSuccessAt",
      w.failing_since as "failingSince"
    from taken d join served w on w.id = d.webhook_id
    left join webhook_events e on e.project_id = d.project_id and e.seq = d.event_seq
    left join projects p on p.id = d.project_id
    cross join lateral (
      select ${IS_ERASED} as is_erased, p.deleted_at is not null as is_project_gone offset 0) x`,
  );
  return rows.map((row) => claimed(row, leasedUntil));
};

const missing = ({ body, isProjectGone, isErased }: ClaimRow): string | null => {
  if (body !== null) return null;
  if (isProjectGone) return "Its project was deleted";
  return isErased ? ERASED_ERROR : "The event is no longer kept";
};

const claimed = (row: ClaimRow, leasedUntil: Date): ClaimedDelivery => {
  const { id, eventId, eventType, body, isTest, attempts, isNew, happenedAt, ...rest } = row;
  const { webhookId, isErased: _erased, isProjectGone: _gone, ...webhook } = rest;
  const what = { id, eventId, eventType, body, isTest, attempts, isNew, happenedAt };
  return { ...what, missing: missing(row), leasedUntil, webhook: { ...webhook, id: webhookId } };
};

/** Releases claimed deliveries that were not completed: they are due at once. No attempt is counted. */
export const releaseDeliveries = async (
  { db, now }: Work,
  claims: readonly ClaimedDelivery[],
): Promise<void> => {
  if (claims.length === 0) return;
  const rows = claims.map(({ id, leasedUntil, webhook }) => ({ w: webhook.id, i: id, l: leasedUntil }));
  await sql`
    update webhook_deliveries d set due_at = ${now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(w uuid, i uuid, l timestamptz)
    where d.webhook_id = x.w and d.id = x.i and d.status = 'pending' and d.due_at = x.l`.execute(db);
};

/** A claim whose commit was not acknowledged: it may have succeeded or not. */
export type LostClaim = { webhookIds: readonly string[]; leasedUntil: Date };

/** As releaseDeliveries, for claims whose deliveries are unknown. */
export const releaseLost = async ({ db, now }: Work, lost: readonly LostClaim[]): Promise<void> => {
  if (lost.length === 0) return;
  const rows = lost.flatMap(({ webhookIds, leasedUntil }) => webhookIds.map((w) => ({ w, l: leasedUntil })));
  await sql`
    update webhook_deliveries d set due_at = ${now.toISOString()}::timestamptz
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(w uuid, l timestamptz)
    where d.webhook_id = x.w and d.status = 'pending' and d.due_at = x.l`.execute(db);
};

/** Age of the oldest overdue item, in seconds; 0 when there is none. */
export type Lags = {
  /** Committed events that are not relayed yet. */
  outbox: number;
  /** Due deliveries that are not in flight. */
  deliveries: number;
};

/** Reads the lags with one index look-up per partition and per webhook. */
export const readLags = async ({ db, now }: Work): Promise<Lags> => {
  const at = now.toISOString();
  const age = (oldest: Date | null): number =>
    oldest === null ? 0 : Math.max(0, (now.getTime() - oldest.getTime()) / 1_000);
  type Row = { outbox: Date | null; deliveries: Date | null };
  const { rows } = await sql<Row>`
    select
      (select min(o.created_at) from generate_series(0, ${sql.lit(OUTBOX_PARTITIONS - 1)}) as p(part)
        cross join lateral (
          select q.project_id, q.outbox_ids[1] as id from outbox_q q where q.part = p.part
          order by q.seq limit 1) q
        join outbox o on o.project_id = q.project_id and o.id = q.id) as outbox,
      (select min(d.due_at) from webhooks w join tenants t on t.id = w.tenant_id
        cross join lateral (
          select q.due_at from webhook_deliveries q
          where q.webhook_id = w.id and q.status = 'pending' and q.due_at <= ${at}::timestamptz
          order by q.due_at, q.id limit 1) d
        where ${IS_SERVED}) as deliveries`.execute(db);
  const { outbox, deliveries } = rows[0]!;
  return { outbox: age(outbox), deliveries: age(deliveries) };
};

/** How long due deliveries may wait for a webhook that is not delivered to. */
const WAIT_MAX_MS = 72 * 3_600_000;

/** A webhook that is not delivered to although it has due deliveries, and why. */
type UndeliveredWebhook = { id: string; isDeleted: boolean; status: string };

const errorOf = ({ isDeleted, status }: UndeliveredWebhook): string => {
  if (isDeleted) return "The webhook was deleted";
  if (status === "PAUSED") return "It waited 72 h while the webhook was paused";
  if (status === "DISABLED") return "It waited 72 h while the webhook was disabled";
  return "It waited 72 h while the account was suspended or its plan had no webhooks";
};

/** Returns webhooks with due deliveries that are not delivered to: the next ones after `after`, by id. */
export const findUndelivered = async (
  { db, now }: Work,
  after: string,
  limit: number,
): Promise<UndeliveredWebhook[]> => {
  const { rows } = await sql<UndeliveredWebhook>`
    select w.id, w.deleted_at is not null as "isDeleted", w.status
    from webhooks w join tenants t on t.id = w.tenant_id
    where w.id > ${after}::uuid and not (${IS_SERVED}) and exists (
      select from webhook_deliveries d
      where d.webhook_id = w.id and d.status = 'pending' and d.due_at <= ${now.toISOString()}::timestamptz)
    order by w.id limit ${limit}`.execute(db);
  return rows;
};

/**
 * Fails deliveries that have been due for 72 h, or any due one of a deleted webhook.
 * @returns how many were failed
 */
export const failLongWaiting = async (
  { db, now }: Work,
  held: UndeliveredWebhook,
  limit: number,
): Promise<number> => {
  const before = new Date(now.getTime() - (held.isDeleted ? 0 : WAIT_MAX_MS)).toISOString();
  const { rows } = await sql`
    update webhook_deliveries d set status = 'failed', error = ${errorOf(held)}, due_at = null,
      next_attempt_at = null, updated_at = ${now.toISOString()}::timestamptz
    where d.ctid = any(array(
      select q.ctid from webhook_deliveries q
      where q.webhook_id = ${held.id}::uuid and q.status = 'pending' and q.due_at <= ${before}::timestamptz
      order by q.due_at, q.id limit ${limit} for update skip locked))
    returning 1`.execute(db);
  return rows.length;
};
