import { sql } from "kysely";
import type { Mail } from "../email/mail.ts";
import { Project } from "../projects/project.ts";
import { seatsTaken } from "../team/invitations.ts";
import { notifyAdmins } from "../tenants/notify-owners.ts";
import { getTenant } from "../tenants/tenant.ts";
import { eventsTakenOf, limitsOf, type Plan, type PlanLimits } from "../../kernel/caller.ts";
import { monthOf, monthStart, noteUsageChange, type Work } from "../../kernel/work.ts";

export const USAGE_METRICS = [
  "eventsPerMonth",
  "activePlayersPerMonth",
  "projects",
  "members",
  "webhooks",
  "activeKeysPerProject",
  "customDomains",
] as const;
export type UsageMetric = (typeof USAGE_METRICS)[number];

/**
 * Returns what a tenant has used in this month, exact, as committed; and what it has now, of keys those of the
 * project that has most of them.
 */
const readUsed = async ({ db, now, serverNow }: Work, tenantId: string) => {
  const ofTenant = sql`tenant_id = ${tenantId}::uuid`;
  const ofMonth = sql`${ofTenant} and month = ${monthOf(serverNow)}::int`;
  const { rows } = await sql<Record<Exclude<UsageMetric, "projects" | "members">, number>>`
    select
      (select coalesce(sum(events), 0) from usage_counters where ${ofMonth}) as "eventsPerMonth",
      (select coalesce(sum(players), 0) from usage_counters where ${ofMonth}) as "activePlayersPerMonth",
      (select count(*) from webhooks where ${ofTenant} and deleted_at is null) as webhooks,
      (select coalesce(max(keys), 0) from (
        select count(*) as keys from api_keys k join projects p on p.id = k.project_id
        where p.tenant_id = ${tenantId}::uuid and p.deleted_at is null and k.status = 'ACTIVE'
          and k.replaced_by is null and (k.expires_at is null or k.expires_at > ${now.toISOString()}::timestamptz)
        group by p.id) of_projects) as "activeKeysPerProject",
      (select count(*) from custom_domains where ${ofTenant}) as "customDomains"`.execute(db);
  return rows[0]!;
};

/** Returns how much of a limit is used, in whole percent rounded down; null without a limit or with one of 0. */
const percentOf = (used: number, limit: number | null): number | null =>
  limit === null || limit === 0 ? null : Math.floor((used / limit) * 100);

/** Returns what the tenant uses of its plan: events and players of this month, and what it has. */
export const showUsage = async (work: Work, tenantId: string) => {
  const tenant = await getTenant(work, tenantId);
  const { serverNow: now } = work;
  const limits = limitsOf(tenant);
  const used = {
    projects: await work.em.count(Project, { tenantId, sandboxOf: null, deletedAt: null }),
    members: await seatsTaken(work, tenantId),
    ...(await readUsed(work, tenantId)),
  };
  const refusedAbove = { ...limits, eventsPerMonth: eventsTakenOf(tenant), activePlayersPerMonth: null };
  return {
    plan: tenant.plan,
    periodStart: monthStart(now).toISOString(),
    periodEnd: monthStart(now, 1).toISOString(),
    items: USAGE_METRICS.map((metric) => {
      const limit = limits[metric];
      const percent = percentOf(used[metric], limit);
      return { metric, used: used[metric], limit, percent, refusedAbove: refusedAbove[metric] };
    }),
  };
};

/** Percents of a limit at which a tenant is told, the largest first. */
const NOTICES = [100, 80] as const;
const METRICS = { eventsPerMonth: "events", activePlayersPerMonth: "active players" } as const;

/** Most changes looked at by one transaction; the rest wait for the next. */
const LOOK_MAX = 5_000;

type Row = {
  id: string;
  plan: Plan;
  planOverrides: Partial<PlanLimits>;
  eventsPerMonth: number;
  activePlayersPerMonth: number;
  reserved: number;
};

/**
 * Mails the OWNERs and ADMINs of tenants that have used 80 or 100 percent of their events or active players
 * of this month: once each a month, however often it runs and whatever is used meanwhile. Who passes both at
 * once is told of 100 alone. Looks at nothing but tenants that were noted in `usage_changes`: for each active
 * player that is new, each change of the plan, and each time that counters of events were given room, which
 * comes before they can pass a limit.
 * @returns whether more wait
 */
export const tellUsage = async (work: Work, mail: Mail): Promise<boolean> => {
  const { rows: changes } = await sql<{ tenant_id: string }>`
    delete from usage_changes where id in (
      select id from usage_changes order by id limit ${LOOK_MAX} for update skip locked)
    returning tenant_id`.execute(work.db);
  if (changes.length === 0) return false;
  const ids = `{${[...new Set(changes.map(({ tenant_id }) => tenant_id))].join(",")}}`;
  const { rows } = await sql<Row>`
    select t.id, t.plan, t.plan_overrides as "planOverrides", sum(u.events) as "eventsPerMonth",
      sum(u.players) as "activePlayersPerMonth", sum(greatest(u.events, u.granted)) as reserved
    from usage_counters u join tenants t on t.id = u.tenant_id
    where u.month = ${monthOf(work.serverNow)}::int and u.tenant_id = any(${ids}::uuid[])
      and t.deleted_at is null
    group by t.id order by t.id`.execute(work.db);
  for (const row of rows) {
    await tellTenant(work, mail, row);
    if (mayPass(row)) await noteUsageChange(work, row.id);
  }
  return changes.length === LOOK_MAX;
};

/** Whether the tenant may pass another percentage of its events within the room that was given already. */
const mayPass = (row: Row): boolean => {
  const limit = limitsOf(row).eventsPerMonth;
  const used = percentOf(row.eventsPerMonth, limit) ?? 0;
  const reserved = percentOf(row.reserved, limit) ?? 0;
  return NOTICES.some((percent) => used < percent && reserved >= percent);
};

const tellTenant = async (work: Work, mail: Mail, row: Row): Promise<void> => {
  const limits = limitsOf(row);
  for (const metric of ["eventsPerMonth", "activePlayersPerMonth"] as const) {
    const [used, limit] = [row[metric], limits[metric]];
    const percent = percentOf(used, limit) ?? 0;
    const notice = NOTICES.find((one) => percent >= one);
    if (!notice || !(await isFirst(work, row.id, { metric, percent: notice }))) continue;
    const values = {
      what: METRICS[metric],
      used: String(used),
      limit: String(limit),
      plan: row.plan,
      periodEnd: monthStart(work.serverNow, 1).toISOString(),
    };
    const refusedAbove = metric === "eventsPerMonth" ? String(eventsTakenOf(row)) : "";
    await notifyAdmins(
      mail,
      work,
      row.id,
      notice === 80
        ? { template: "usage-80", values }
        : { template: "usage-100", values: { ...values, refusedAbove } },
    );
  }
};

/** Records a notice, and those of less; false if it was sent before. */
const isFirst = async (
  { db, serverNow }: Work,
  tenantId: string,
  { metric, percent }: { metric: string; percent: number },
): Promise<boolean> => {
  const percents = NOTICES.filter((one) => one <= percent);
  const { rows } = await sql<{ percent: number }>`
    insert into usage_notices (tenant_id, month, metric, percent, sent_at)
    select ${tenantId}::uuid, ${monthOf(serverNow)}::int, ${metric}, p::int,
      ${serverNow.toISOString()}::timestamptz
    from json_array_elements_text(${JSON.stringify(percents)}::json) as p
    on conflict do nothing returning percent`.execute(db);
  return rows.some((row) => row.percent === percent);
};
