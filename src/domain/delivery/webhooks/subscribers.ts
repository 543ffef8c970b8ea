import { sql } from "kysely";
import { feedReadSince } from "../../kernel/events/awaited.ts";
import { PLAN_LIMITS, type PlanLimits, hasFeature, limitsOf, type Plan } from "../../kernel/plans.ts";
import type { Work } from "../../kernel/work.ts";

/** Receivers of a project's events: webhooks, and the feed if it is read. */
export type Subscribers = {
  projectId: string;
  tenantId: string;
  webhooks: readonly { id: string; events: readonly string[] }[];
  isFeedRead: boolean;
  /** How long events and deliveries are kept, in ms. */
  keptMs: number;
};

const DAY_MS = 86_400_000;
/** For plans without a limit. */
const UNLIMITED_DAYS = 3_650;

type Row = {
  projectId: string;
  tenantId: string;
  plan: Plan;
  planOverrides: Partial<PlanLimits>;
  isFeedRead: boolean;
  webhooks: { id: string; events: string[] }[];
};

/** Returns how long deliveries are kept, in ms: by plan. */
export const keptMsOf = (tenant: { plan: Plan; planOverrides: Partial<PlanLimits> }): number => {
  const days = limitsOf(tenant).deliveryLogDays ?? UNLIMITED_DAYS;
  return Math.max(days, PLAN_LIMITS.PRO.deliveryLogDays ?? 0) * DAY_MS;
};

/**
 * Returns the receivers of events of these projects; projects without any are omitted. A webhook that is
 * PAUSED, or whose tenant is suspended, is included: its events wait. Read after the events were committed,
 * so that it misses no webhook that existed before.
 */
export const readSubscribers = async (
  { db, now }: Work,
  projectIds: Iterable<string>,
): Promise<Subscribers[]> => {
  const ids = [...new Set(projectIds)];
  if (ids.length === 0) return [];
  const readSince = feedReadSince(now).toISOString();
  const { rows } = await sql<Row>`
    select p.id as "projectId", p.tenant_id as "tenantId", t.plan, t.plan_overrides as "planOverrides",
      coalesce(f.read_at > ${readSince}::timestamptz, false) as "isFeedRead",
      coalesce(w.list, '[]') as webhooks
    from projects p join tenants t on t.id = p.tenant_id
    left join webhook_feeds f on f.project_id = p.id
    left join lateral (
      select json_agg(json_build_object('id', w.id, 'events', w.events) order by w.id) as list
      from webhooks w
      where w.tenant_id = p.tenant_id and w.deleted_at is null and w.status <> 'DISABLED'
        and (w.project_id = p.id or (w.project_id is null and p.sandbox_of is null))) w on true
    where p.id = any(${`{${ids.join(",")}}`}::uuid[]) and (w.list is not null or f.read_at is not null)
      and p.deleted_at is null and t.deleted_at is null
      and t.approval_status in ('APPROVED', 'SUSPENDED')`.execute(db);
  return rows
    .filter((row) => hasFeature(row, "webhooks") && (row.isFeedRead || row.webhooks.length > 0))
    .map(({ plan, planOverrides, ...row }) => ({ ...row, keptMs: keptMsOf({ plan, planOverrides }) }));
};
