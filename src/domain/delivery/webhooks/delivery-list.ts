import { type RawBuilder, sql } from "kysely";
import { countRows, type Total } from "../../kernel/counting.ts";
import { notFound } from "../../kernel/errors.ts";
import type { Json } from "../../kernel/events/events.ts";
import { idFloor, isId } from "../../kernel/ids.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { orderBy, type Ordered, type SortOf } from "../../kernel/sorting.ts";
import type { Work } from "../../kernel/work.ts";
import type { Attempt, DeliveryStatus } from "./delivering/delivery.ts";
import type { Webhook } from "./webhook.ts";

/** Maximum characters of a response shown in a list. */
export const LISTED_RESPONSE_MAX = 1_000;

/**
 * A webhook's delivery of one event, past or planned. The last attempt's response is shown at the top level.
 */
export type Delivery = {
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

export type ListDeliveries = PageQuery &
  Ordered<SortOf<typeof DELIVERY_ORDERS>> & {
    status?: DeliveryStatus | undefined;
    eventType?: string | undefined;
    eventId?: string | undefined;
    /** Times of the event. */
    from?: Date | undefined;
    to?: Date | undefined;
  };

type Row = {
  id: string;
  webhook_id: string;
  project_id: string;
  event_id: string;
  event_type: string;
  status: DeliveryStatus;
  is_test: boolean;
  attempts: number;
  log: Attempt[];
  error: string | null;
  next_attempt_at: Date | string | null;
  created_at: Date | string;
  updated_at: Date | string;
};

const COLUMNS = sql.raw(`d.id, d.webhook_id, d.project_id, d.event_id, d.event_type, d.status, d.is_test,
  d.attempts, d.error, d.next_attempt_at, d.created_at, d.updated_at`);

const iso = (at: Date | string): string => new Date(at).toISOString();

const deliveryOf = (row: Row): Delivery => {
  const last = row.log.at(-1);
  return {
    id: row.id,
    webhookId: row.webhook_id,
    projectId: row.project_id,
    eventId: row.event_id,
    eventType: row.event_type,
    status: row.status,
    isTest: row.is_test,
    retryCount: Math.max(0, row.attempts - 1),
    responseCode: last?.responseCode ?? null,
    responseBody: last?.responseBody ?? null,
    durationMs: last?.durationMs ?? null,
    error: row.error,
    nextAttemptAt: row.next_attempt_at === null ? null : iso(row.next_attempt_at),
    createdAt: iso(row.created_at),
    updatedAt: iso(row.updated_at),
  };
};

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
  const found = await sql<Row>`
    select ${COLUMNS}, case when d.log = '[]' then d.log else jsonb_build_array(d.log -> -1) end as log
    from webhook_deliveries d where ${where}
    order by ${orderBy(DELIVERY_ORDERS, query, sql`d.id`)}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(work.db);
  const deliveries = found.rows.map(deliveryOf).map((delivery) => ({
    ...delivery,
    responseBody: delivery.responseBody?.slice(0, LISTED_RESPONSE_MAX).toWellFormed() ?? null,
  }));
  return { deliveries, ...(await countRows(work, sql`webhook_deliveries d where ${where}`)) };
};

/** @throws NOT_FOUND, also for another webhook's */
export const getDelivery = async (work: Work, webhook: Webhook, id: string): Promise<DeliveryDetail> => {
  const found = isId(id)
    ? await sql<Row & { body: string | null }>`
        select ${COLUMNS}, d.log, coalesce(d.body, e.body) as body
        from webhook_deliveries d
        left join webhook_events e on e.project_id = d.project_id and e.seq = d.event_seq
        where d.webhook_id = ${webhook.id}::uuid and d.id = ${id}::uuid`.execute(work.db)
    : { rows: [] };
  const [row] = found.rows;
  if (!row) throw notFound("Delivery");
  const payload = row.body === null ? null : (JSON.parse(row.body) as Json);
  return { ...deliveryOf(row), attempts: row.log, payload };
};
