import type { Mail } from "../accounts/email/mail.ts";
import { showUsage, type UsageMetric } from "../accounts/billing/usage-notices.ts";
import { lockTenant, type Tenant } from "../accounts/tenants/tenant.ts";
import { notifyAdmins } from "../accounts/tenants/notify-owners.ts";
import { setPlan } from "../accounts/tenants/approval.ts";
import { FEATURES, hasFeature, limitsOf, type Plan } from "../kernel/caller.ts";
import type { Work } from "../kernel/work.ts";
import { sql } from "kysely";

/** What is not counted by the month, and what becomes of more than the plan includes. */
const KEPT: Readonly<Partial<Record<UsageMetric, { what: string; fate: string }>>> = {
  projects: { what: "projects", fate: "all stay, and none can be added" },
  members: { what: "members and invitations", fate: "all stay, and none can be added" },
  customDomains: { what: "custom domains", fate: "those beyond it are suspended in seven days" },
};

const SSO_LOST =
  "Nobody can sign in through your identity provider any more: passwords are set by the link for forgotten ones. " +
  "The configuration is kept, and counts again, enforced or not, once the plan has single sign-on.";

/** Gives a tenant another plan, with all that follows from it. @throws NOT_FOUND */
export const takePlan = async (work: Work, mail: Mail, tenantId: string, plan: Plan): Promise<void> => {
  const { plan: from } = await lockTenant(work, tenantId);
  const tenant = await setPlan(work, tenantId, { plan });
  await work.em.flush();
  await followPlan(work, mail, { tenant, from });
};

/**
 * Does what follows from a tenant's plan or limits: nothing is deleted; webhooks without room are paused, and
 * resumed once there is room. Of another plan its OWNERs and ADMINs are told, with what is over.
 */
export const followPlan = async (
  work: Work,
  mail: Mail,
  { tenant, from }: { tenant: Tenant; from: Plan },
): Promise<void> => {
  const { id, plan: to } = tenant;
  const { paused, resumed } = await fitWebhooks(
    work,
    id,
    hasFeature(tenant, "webhooks") ? limitsOf(tenant).webhooks : 0,
  );
  if (from === to) return;
  const { items } = await showUsage(work, id);
  const over = items.flatMap(({ metric, used, limit }) => {
    const kept = KEPT[metric];
    if (kept === undefined || limit === null || used <= limit) return [];
    return [`There are ${used} ${kept.what}, and the plan has room for ${limit}: ${kept.fate}.`];
  });
  const lost = FEATURES.filter((name) => hasFeature({ plan: from }, name) && !hasFeature({ plan: to }, name));
  const remarks = [
    ...over,
    ...(paused > 0
      ? [`${paused} webhooks were paused; their events wait, and they resume with a larger plan.`]
      : []),
    ...(resumed > 0 ? [`${resumed} webhooks that had been paused are active again.`] : []),
    ...(lost.includes("sso") ? [SSO_LOST] : []),
  ];
  await notifyAdmins(mail, work, id, {
    template: "plan-changed",
    values: { from, to, remarks: remarks.join(" ") },
  });
};

/** Why a webhook is PAUSED that a smaller plan has no room for. */
const PLAN_REASON = "The plan has no room for it";

/** How many webhooks were paused and resumed. */
type Fitted = { paused: number; resumed: number };

/**
 * Pauses the webhooks of a tenant that its plan has no room for, the youngest first, and resumes those that
 * were paused for want of room. Their events wait as for any webhook that is PAUSED; nothing is deleted.
 * Those that were paused by people, or are DISABLED, take no room.
 * @param max the limit of the plan; null is none
 */
const fitWebhooks = async (work: Work, tenantId: string, max: number | null): Promise<Fitted> => {
  const now = work.now.toISOString();
  const { rows } = await sql<{ id: string; paused: boolean }>`
    with ranked as (
      select id, coalesce(row_number() over (order by created_at, id) > ${max}::int, false) as is_over
      from webhooks where tenant_id = ${tenantId}::uuid and deleted_at is null
        and (status in ('ACTIVE', 'FAILED') or (status = 'PAUSED' and disabled_reason = ${PLAN_REASON})))
    update webhooks w set
      status = case when r.is_over then 'PAUSED' else 'ACTIVE' end,
      disabled_reason = case when r.is_over then ${PLAN_REASON} end,
      paused_at = case when r.is_over then ${now}::timestamptz end,
      updated_at = ${now}::timestamptz
    from ranked r where w.id = r.id and r.is_over = (w.status <> 'PAUSED')
    returning w.id, w.status = 'PAUSED' as paused`.execute(work.db);
  const resumed = rows.filter(({ paused }) => !paused).map(({ id }) => id);
  work.wakeWebhooks(resumed);
  return { paused: rows.length - resumed.length, resumed: resumed.length };
};
