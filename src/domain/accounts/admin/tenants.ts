import { type RawBuilder, sql } from "kysely";
import type { FilterQuery } from "@mikro-orm/core";
import { findCustomer, markTenant } from "../billing/customer.ts";
import type { SubscriptionStatus } from "../billing/provider.ts";
import { setPlan } from "../tenants/approval.ts";
import { lockTenant, Tenant } from "../tenants/tenant.ts";
import {
  APPROVAL_STATUSES,
  type ApprovalStatus,
  limitsOf,
  type MemberStatus,
  type Plan,
  type PlanLimits,
  PLANS,
} from "../../kernel/caller.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { offsetOf, type PageQuery } from "../../kernel/paging.ts";
import { containing } from "../../kernel/db.ts";
import { countRows, findPage, getRow, type Total, type Work } from "../../kernel/work.ts";
import { definedOf, shown } from "../../kernel/json.ts";
import { audit, ofUser } from "../audit/audit.ts";
import { revokeSessions } from "../auth/sessions.ts";
import { User } from "../auth/user.ts";
import type { ListedRoom, RoomSession } from "../../kernel/live-rooms.ts";
import { Project } from "../projects/project.ts";

/** Maximum of each count: beyond it an exact number adds nothing. */
export const STATS_COUNT_MAX = 1_000_000;

type Group = { status: ApprovalStatus; plan: Plan; tenants: number };
type Counts = { users: number; projects: number; keys: number; queued: number; failed: number };

const sums = <K extends string>(
  names: readonly K[],
  groups: readonly Group[],
  nameOf: (group: Group) => K,
): Record<K, number> => {
  const found = Object.fromEntries(names.map((name) => [name, 0])) as Record<K, number>;
  for (const group of groups) found[nameOf(group)] += group.tenants;
  return found;
};

/** Returns usage statistics of the platform, without deleted items. Counts are capped at STATS_COUNT_MAX. */
export const platformStats = async ({ db, now }: Work) => {
  const at = now.toISOString();
  const dayAgo = new Date(now.getTime() - 86_400_000).toISOString();
  const groups = await sql<Group>`
    select approval_status as status, plan, count(*) as tenants from (
      select approval_status, plan from tenants
      where deleted_at is null limit ${STATS_COUNT_MAX}) as counted
    group by approval_status, plan`.execute(db);
  const counts = await sql<Counts>`
    select
      (select count(*) from (select from users limit ${STATS_COUNT_MAX}) as counted) as users,
      (select count(*) from (select from projects
        where deleted_at is null and sandbox_of is null limit ${STATS_COUNT_MAX}) as counted) as projects,
      (select count(*) from (select from api_keys
        where status = 'ACTIVE' and (expires_at is null or expires_at > ${at}::timestamptz)
        limit ${STATS_COUNT_MAX}) as counted) as keys,
      (select count(*) from (select from email_outbox limit ${STATS_COUNT_MAX}) as counted) as queued,
      (select count(*) from (select from email_logs
        where status = 'FAILED' and created_at > ${dayAgo}::timestamptz
        limit ${STATS_COUNT_MAX}) as counted) as failed`.execute(db);
  const row = counts.rows[0]!;
  return {
    tenants: {
      total: groups.rows.reduce((total, { tenants }) => total + tenants, 0),
      byApprovalStatus: sums(APPROVAL_STATUSES, groups.rows, ({ status }) => status),
      byPlan: sums(PLANS, groups.rows, ({ plan }) => plan),
    },
    users: row.users,
    projects: row.projects,
    activeKeys: row.keys,
    mail: { queued: row.queued, failedLastDay: row.failed },
    generatedAt: at,
  };
};

/** Records who ends a session and why in the audit log of the room's tenant, before it is ended. */
export const auditDisconnect = async (
  work: Work,
  { room, session }: { room: ListedRoom; session: RoomSession },
  reason: string,
): Promise<void> => {
  const { roomId, kind, projectId } = room;
  const { sessionId, playerId, userId } = session;
  const project = await work.em.findOne(Project, { id: projectId }, { fields: ["tenantId"] });
  await audit(work, {
    action: "room.client_disconnected",
    target: { type: "room", id: roomId },
    tenantId: project?.tenantId ?? null,
    data: { kind, projectId, sessionId, playerId, userId, reason },
  });
};

/** Null restores the plan's limit; absent leaves it unchanged. */
type LimitChanges = Partial<Record<keyof PlanLimits, number | "unlimited" | null | undefined>>;

/** Of subscriptions that give a plan. */
const RUNNING: ReadonlySet<SubscriptionStatus> = new Set(["TRIALING", "ACTIVE", "PAST_DUE"]);

/** Has a subscription that runs read anew: while the plan was ENTERPRISE it had no effect. */
const markRunning = async (work: Work, tenantId: string): Promise<void> => {
  const customer = await findCustomer(work, tenantId);
  if (customer && RUNNING.has(customer.status)) await markTenant(work, tenantId);
};

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
  if (tenant.plan === "ENTERPRISE" && plan !== undefined) await markRunning(work, tenantId);
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
export const getPlatformTenant = (work: Work, id: string): Promise<Tenant> =>
  getRow(work, Tenant, "Tenant", { id });

type TenantCounts = { projects: number; members: number; activeKeys: number };

/** Counts projects that are neither deleted nor sandboxes, members, and active keys. */
export const countOfTenant = async ({ db, now }: Work, tenantId: string): Promise<TenantCounts> => {
  const { rows } = await sql<TenantCounts>`
    with p as (
      select id from projects
      where tenant_id = ${tenantId}::uuid and deleted_at is null and sandbox_of is null)
    select (select count(*) from p) as projects,
      (select count(*) from users where tenant_id = ${tenantId}::uuid) as members,
      (select count(*) from api_keys k join p on p.id = k.project_id
        where k.status = 'ACTIVE'
          and (k.expires_at is null or k.expires_at > ${now.toISOString()}::timestamptz)
      ) as "activeKeys"`.execute(db);
  return rows[0]!;
};

type UserQuery = PageQuery & {
  sort: "createdAt" | "email" | "lastLoginAt";
  order: "asc" | "desc";
  tenantId?: string | undefined;
  status?: MemberStatus | undefined;
  isDisabled?: boolean | undefined;
  /** Part of the address. */
  search?: string | undefined;
};

/** A user as returned by the API. */
export const showPlatformUser = (user: User) =>
  shown(user, [
    "id",
    "tenantId",
    "email",
    "name",
    "role",
    "status",
    "emailVerified",
    "mfaEnabled",
    "disabledAt",
    "lastLoginAt",
    "createdAt",
    "updatedAt",
  ]);

/** Returns users of all tenants. */
export const listPlatformUsers = async (work: Work, query: UserQuery): Promise<Total & { rows: User[] }> => {
  const { tenantId, status, isDisabled, search } = query;
  const where: FilterQuery<User> = {
    ...definedOf({ tenantId, status }),
    ...(isDisabled === undefined ? {} : { disabledAt: isDisabled ? { $ne: null } : null }),
    ...(search === undefined ? {} : { email: { $ilike: containing(search) } }),
  };
  const orderBy = [{ [query.sort]: `${query.order} nulls last` }, { id: query.order }];
  return findPage(work, User, where, { query, orderBy });
};

/** @throws NOT_FOUND */
export const getPlatformUser = (work: Work, id: string): Promise<User> => getRow(work, User, "User", { id });

/** As `getPlatformUser`, locked until the commit: of two concurrent changes, one is rejected. */
const lockUser = async (work: Work, userId: string): Promise<User> => {
  const user = await getPlatformUser(work, userId);
  await sql`select 1 from users where id = ${user.id}::uuid for no key update`.execute(work.db);
  const locked = await work.em.findOne(User, { id: user.id }, { refresh: true });
  if (!locked) throw notFound("User");
  return locked;
};

/**
 * Disables a user and ends their sessions; also a tenant's last OWNER. API keys created by the
 * user belong to the project and are kept. @throws NOT_FOUND, CONFLICT INVALID_STATE
 */
export const disableUser = async (work: Work, userId: string, reason: string): Promise<User> => {
  const user = await lockUser(work, userId);
  if (user.disabledAt) throw conflict("INVALID_STATE", "The user is disabled already");
  user.disabledAt = work.now;
  user.updatedAt = work.now;
  // So that enabling the user later does not restore old sessions.
  await revokeSessions(work, user.id, { reason: "USER_DISABLED" });
  await auditUser(work, "user.disabled", user, { reason });
  return user;
};

/** Enables a user again. @throws NOT_FOUND, CONFLICT INVALID_STATE */
export const enableUser = async (work: Work, userId: string): Promise<User> => {
  const user = await lockUser(work, userId);
  if (!user.disabledAt) throw conflict("INVALID_STATE", "The user is not disabled");
  user.disabledAt = null;
  user.updatedAt = work.now;
  await auditUser(work, "user.enabled", user, {});
  return user;
};

const auditUser = (work: Work, action: string, user: User, data: object): Promise<void> =>
  audit(work, { ...ofUser(user), action, data: { email: user.email, ...data } });
