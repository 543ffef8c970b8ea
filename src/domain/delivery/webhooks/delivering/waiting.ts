import { sql } from "kysely";
import type { Work } from "../../../kernel/work.ts";
import { IS_SERVED } from "./claim.ts";

/** How long due deliveries may wait for a webhook that is not delivered to. */
const WAIT_MAX_MS = 72 * 3_600_000;

/** A webhook that is not delivered to although it has due deliveries, and why. */
export type UndeliveredWebhook = { id: string; isDeleted: boolean; status: string };

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
