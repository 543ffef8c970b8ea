import { sql } from "kysely";
import { OUTBOX_PARTITIONS } from "../../../kernel/ids.ts";
import type { Work } from "../../../kernel/work.ts";
import { IS_SERVED } from "./claim.ts";

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
  const age = (oldest: Date | string | null): number =>
    oldest === null ? 0 : Math.max(0, (now.getTime() - new Date(oldest).getTime()) / 1_000);
  type Row = { outbox: Date | string | null; deliveries: Date | string | null };
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
