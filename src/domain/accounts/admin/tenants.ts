import { type RawBuilder, sql } from "kysely";
import { setPlan } from "../tenants/approval.ts";
import { lockTenant, Tenant } from "../tenants/tenant.ts";
import { type ApprovalStatus, limitsOf, type Plan, type PlanLimits } from "../../kernel/caller.ts";
import { notFound } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { containing } from "../../kernel/search.ts";
import { countRows, type Total, type Work } from "../../kernel/work.ts";
import { shown } from "../../kernel/shown.ts";

/** Null restores the plan's limit; absent leaves it unchanged. */
export type LimitChanges = Partial<Record<keyof PlanLimits, number | "unlimited" | null | undefined>>;

/** Changes a tenant's plan, and single limits that override it. @throws NOT_FOUND */
export const changeTenantPlan = async (
  work: Work,
  tenantId: string,
  { plan, limits }: { plan?: Plan | undefined; limits?: LimitChanges | undefined },
): Promise<Tenant> => {
  // Locked from here on, since the current overrides are changed.
  const tenant = await lockTenant(work, tenantId);
  const overrides = new Map(Object.entries(tenant.planOverrides));
  for (const [name, value] of Object.entries(limits ?? {})) {
    if (value === null) overrides.delete(name);
    else if (value !== undefined) overrides.set(name, value === "unlimited" ? null : value);
  }
  const planOverrides: Partial<PlanLimits> = Object.fromEntries(overrides);
  return setPlan(work, tenantId, { plan, planOverrides });
};

type TenantQuery = PageQuery & {
  sort: "createdAt" | "name";
  order: "asc" | "desc";
  approvalStatus?: ApprovalStatus | undefined;
  plan?: Plan | undefined;
  /** Part of the name or of an OWNER's address. */
  search?: string | undefined;
};

/** Limits as returned by the API: null in PlanLimits is "unlimited" here. */
type ShownLimits = Partial<Record<keyof PlanLimits, number | "unlimited">>;

const showLimits = (limits: Partial<PlanLimits>): ShownLimits =>
  Object.fromEntries(Object.entries(limits).map(([name, value]) => [name, value ?? "unlimited"]));

/** A tenant as returned by the API. */
export const showPlatformTenant = (tenant: Tenant) => ({
  ...shown(tenant, [
    "id",
    "name",
    "approvalStatus",
    "approvalReason",
    "approvalRequestedAt",
    "plan",
    "deleteAfter",
    "deletedAt",
    "createdAt",
    "updatedAt",
  ]),
  planOverrides: showLimits(tenant.planOverrides),
  limits: showLimits(limitsOf(tenant)),
});

const conditionOf = ({ approvalStatus, plan, search }: TenantQuery): RawBuilder<unknown> => {
  const pattern = search === undefined ? undefined : containing(search);
  return sql.join(
    [
      sql`true`,
      ...(approvalStatus === undefined ? [] : [sql`t.approval_status = ${approvalStatus}`]),
      ...(plan === undefined ? [] : [sql`t.plan = ${plan}`]),
      ...(pattern === undefined
        ? []
        : [
            sql`(t.name ilike ${pattern} or exists (
              select from users u
              where u.tenant_id = t.id and u.role = 'OWNER' and u.email ilike ${pattern}))`,
          ]),
    ],
    sql` and `,
  );
};

const SORTS = { createdAt: "created_at", name: "name" } as const;

/** Returns tenants of the platform, including deleted ones. */
export const listPlatformTenants = async (
  work: Work,
  query: TenantQuery,
): Promise<Total & { tenants: Tenant[] }> => {
  const { em, db } = work;
  const condition = conditionOf(query);
  const column = sql.ref(`t.${SORTS[query.sort]}`);
  const order = query.order === "asc" ? sql`asc` : sql`desc`;
  const { rows } = await sql<{ id: string }>`
    select t.id from tenants t where ${condition}
    order by ${column} ${order}, t.id ${order}
    limit ${query.limit} offset ${offsetOf(query)}`.execute(db);
  const found = await em.find(Tenant, { id: { $in: rows.map(({ id }) => id) } });
  const byId = new Map(found.map((tenant) => [tenant.id, tenant]));
  return {
    tenants: rows.map(({ id }) => byId.get(id)!),
    ...(await countRows(work, sql`tenants t where ${condition}`)),
  };
};

/** @throws NOT_FOUND */
export const getPlatformTenant = async ({ em }: Work, tenantId: string): Promise<Tenant> => {
  const tenant = isId(tenantId) ? await em.findOne(Tenant, { id: tenantId }) : null;
  if (!tenant) throw notFound("Tenant");
  return tenant;
};

type TenantCounts = { projects: number; members: number; activeKeys: number };

/** Counts projects that are neither deleted nor sandboxes, members, and active keys. */
export const countOfTenant = async ({ db, now }: Work, tenantId: string): Promise<TenantCounts> => {
  const { rows } = await sql<Record<keyof TenantCounts, string>>`
    with p as (
      select id from projects
      where tenant_id = ${tenantId}::uuid and deleted_at is null and sandbox_of is null)
    select (select count(*) from p) as projects,
      (select count(*) from users where tenant_id = ${tenantId}::uuid) as members,
      (select count(*) from api_keys k join p on p.id = k.project_id
        where k.status = 'ACTIVE'
          and (k.expires_at is null or k.expires_at > ${now.toISOString()}::timestamptz)
      ) as "activeKeys"`.execute(db);
  const [row] = rows;
  return {
    projects: Number(row!.projects),
    members: Number(row!.members),
    activeKeys: Number(row!.activeKeys),
  };
};
