import type { Mail } from "../accounts/email/mail.ts";
import { showUsage, type UsageMetric } from "../accounts/billing/usage-notices.ts";
import { lockTenant, type Tenant } from "../accounts/tenants/tenant.ts";
import { notifyAdmins } from "../accounts/tenants/notify-owners.ts";
import { setPlan } from "../accounts/tenants/approval.ts";
import { FEATURES, hasFeature, limitsOf, type Plan } from "../kernel/caller.ts";
import type { Work } from "../kernel/work.ts";
import { fitWebhooks } from "./webhooks/plan.ts";
import { sql } from "kysely";
import { timeOfId } from "../kernel/ids.ts";

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

/** Rows of a queue are counted up to this number: a count reads every row. */
const COUNTED_MAX = 100_000;

/** What waits in the queues of the database, of all projects. */
export type Queues = {
  /**
   * Rows, up to 100,000: events for the rules, events that wait for another try or their time, commits for
   * the relay.
   */
  lengths: { events: number; events_due: number; commits: number };
  /** Time since the oldest counted event was taken in, in seconds; 0 when none waits. */
  age: number;
  /** Projects whose rollups of analytics are halted. */
  rollupsHalted: number;
};

/** Reads the lengths of the queues, and the age of the oldest event in them. */
export const readQueues = async ({ db, now }: Work): Promise<Queues> => {
  type Row = Queues["lengths"] & { oldest: string | null; rollups_halted: number };
  const max = sql.lit(COUNTED_MAX);
  const { rows } = await sql<Row>`
    with waiting as materialized (select event_id from event_q limit ${max})
    select (select count(*) from waiting) as events,
      (select event_id from waiting order by event_id limit 1) as oldest,
      (select count(*) from (select from event_due limit ${max}) d) as events_due,
      (select count(*) from (select from outbox_q limit ${max}) o) as commits,
      (select count(*) from analytics_rollups where halted_at is not null) as rollups_halted`.execute(db);
  const { oldest, rollups_halted: rollupsHalted, ...lengths } = rows[0]!;
  const age = oldest === null ? 0 : Math.max(0, (now.getTime() - timeOfId(oldest)) / 1_000);
  return { lengths, age, rollupsHalted };
};
