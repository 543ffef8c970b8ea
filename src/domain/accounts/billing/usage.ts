import { sql } from "kysely";
import { eventsTakenOf, limitsOf } from "../../kernel/plans.ts";
import { monthOf, monthStart } from "../../kernel/usage-counters.ts";
import type { Work } from "../../kernel/work.ts";
import { Project } from "../projects/project.ts";
import { seatsTaken } from "../team/seats.ts";
import { getTenant } from "../tenants/tenants.ts";

export const USAGE_METRICS = [
  "eventsPerMonth",
  "activePlayersPerMonth",
  "projects",
  "members",
  "webhooks",
] as const;

/** What is used of a limit of the plan, whose name `metric` is. */
export type UsageItem = {
  metric: (typeof USAGE_METRICS)[number];
  used: number;
  /** null: the plan has no such limit. */
  limit: number | null;
  /** Of the limit, rounded down; null without a limit or with one of 0. */
  percent: number | null;
  /** More than this is refused with 402; null: nothing is. */
  refusedAbove: number | null;
};

/** Returns what a tenant has used in the month of a time: exact, as committed. */
export const readUsage = async (
  { db }: Pick<Work, "db">,
  tenantId: string,
  time: Date,
): Promise<{ events: number; players: number }> => {
  const { rows } = await sql<{ events: string | number; players: string | number }>`
    select coalesce(sum(events), 0) as events, coalesce(sum(players), 0) as players
    from usage_counters where tenant_id = ${tenantId}::uuid and month = ${monthOf(time)}::int`.execute(db);
  return { events: Number(rows[0]!.events), players: Number(rows[0]!.players) };
};

const countWebhooks = async ({ db }: Work, tenantId: string): Promise<number> => {
  const { rows } = await sql<{ count: string | number }>`
    select count(*) as count from webhooks
    where tenant_id = ${tenantId}::uuid and deleted_at is null`.execute(db);
  return Number(rows[0]!.count);
};

/** Returns how much of a limit is used, in whole percent rounded down. */
export const percentOf = (used: number, limit: number | null): number | null =>
  limit === null || limit === 0 ? null : Math.floor((used / limit) * 100);

/** Returns what the tenant uses of its plan: events and players of this month, and what it has. */
export const showUsage = async (work: Work, tenantId: string) => {
  const tenant = await getTenant(work, tenantId);
  const { serverNow: now } = work;
  const limits = limitsOf(tenant);
  const { events, players } = await readUsage(work, tenantId, now);
  const used = {
    eventsPerMonth: events,
    activePlayersPerMonth: players,
    projects: await work.em.count(Project, { tenantId, sandboxOf: null, deletedAt: null }),
    members: await seatsTaken(work, tenantId),
    webhooks: await countWebhooks(work, tenantId),
  };
  const refusedAbove = { ...limits, eventsPerMonth: eventsTakenOf(tenant), activePlayersPerMonth: null };
  return {
    plan: tenant.plan,
    periodStart: monthStart(now).toISOString(),
    periodEnd: monthStart(now, 1).toISOString(),
    items: USAGE_METRICS.map((metric): UsageItem => {
      const limit = limits[metric];
      const percent = percentOf(used[metric], limit);
      return { metric, used: used[metric], limit, percent, refusedAbove: refusedAbove[metric] };
    }),
  };
};
