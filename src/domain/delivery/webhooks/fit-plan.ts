import { sql } from "kysely";
import type { Work } from "../../kernel/work.ts";

/** Why a webhook is PAUSED that a smaller plan has no room for. */
export const PLAN_REASON = "The plan has no room for it";

/** How many webhooks were paused and resumed. */
export type Fitted = { paused: number; resumed: number };

/**
 * Pauses the webhooks of a tenant that its plan has no room for, the youngest first, and resumes those that
 * were paused for want of room. Their events wait as for any webhook that is PAUSED; nothing is deleted.
 * Those that were paused by people, or are DISABLED, take no room.
 * @param max the limit of the plan; null is none
 */
export const fitWebhooks = async (work: Work, tenantId: string, max: number | null): Promise<Fitted> => {
  const now = work.now.toISOString();
  const { rows } = await sql<{ id: string; paused: boolean }>`
    with ranked as (
      select id, status, row_number() over (order by created_at, id) as place from webhooks
      where tenant_id = ${tenantId}::uuid and deleted_at is null and (status in ('ACTIVE', 'FAILED')
        or (status = 'PAUSED' and disabled_reason = ${PLAN_REASON})))
    update webhooks w set
      status = case when r.place > ${max ?? null}::int then 'PAUSED' else 'ACTIVE' end,
      disabled_reason = case when r.place > ${max ?? null}::int then ${PLAN_REASON} end,
      paused_at = case when r.place > ${max ?? null}::int then ${now}::timestamptz end,
      updated_at = ${now}::timestamptz
    from ranked r
    where w.id = r.id and ((r.place > ${max ?? null}::int and w.status <> 'PAUSED')
      or (coalesce(r.place <= ${max ?? null}::int, true) and w.status = 'PAUSED'))
    returning w.id, w.status = 'PAUSED' as paused`.execute(work.db);
  const resumed = rows.filter(({ paused }) => !paused).map(({ id }) => id);
  work.wakeWebhooks(resumed);
  return { paused: rows.length - resumed.length, resumed: resumed.length };
};
